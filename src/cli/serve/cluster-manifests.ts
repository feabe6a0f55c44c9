import { join, sep } from 'node:path';
import { fileURLToPath } from 'node:url';
import { isObject } from '../../kube/types.ts';
import { DEFINITIONS, defaultSettings, webhookConfigurations, type Manifest } from '../../install/index.ts';
import type { SccMode } from '../../policy/scc/mode.ts';
import { VERSION } from '../version.ts';
import { readSeed, type SeedObject } from './seed.ts';

/** What the embedded cluster is filled with, in this order; each in the order in which it has to be created. */
export interface ClusterManifests {
  /** The kinds of our own. */
  readonly definitions: readonly SeedObject[];
  /** What has been there before the webhooks: they do not judge it. */
  readonly seed: readonly SeedObject[];
  readonly configurations: readonly SeedObject[];
  /** SCCs are created when their webhooks listen: short ones are completed by them. */
  readonly sccs: readonly SeedObject[];
}

/** Where the examples lie: beside the folder of the sources, or that of the bundle. */
const HERE = fileURLToPath(import.meta.url);
const ROOT = HERE.slice(0, Math.max(HERE.lastIndexOf(`${sep}src${sep}`), HERE.lastIndexOf(`${sep}dist${sep}`)));

/**
 * Reads what the embedded cluster starts with: a folder of manifests, by default that of the examples; and what every
 * installation has.
 * Rejects with a UserError that names file and line of what cannot be read.
 */
export async function readClusterManifests(folder: string | undefined, sccMode: SccMode): Promise<ClusterManifests> {
  const seed = await readSeed(folder ?? join(ROOT, 'examples/cluster'));
  return {
    definitions: DEFINITIONS.map(ours),
    seed: seed.filter((one) => !isScc(one)),
    configurations: webhookConfigurations({ ...defaultSettings(VERSION), certificates: 'others', sccMode }).map(ours),
    sccs: seed.filter(isScc),
  };
}

function ours(value: Manifest): SeedObject {
  return { value, place: `${value.kind} ${value.metadata.name}` };
}

function isScc({ value }: SeedObject): boolean {
  return isObject(value) && value['kind'] === 'SecurityContextConstraints';
}
