import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { ManifestObject } from '../../config/manifests.ts';
import { isObject } from '../../kube/types.ts';
import type { SccMode } from '../../policy/scc/mode.ts';
import { readSeed } from './seed.ts';

/** What the embedded cluster is filled with, in this order; each in the order in which it has to be created. */
export interface ClusterManifests {
  /** The kinds of our own. */
  readonly definitions: readonly ManifestObject[];
  /** What has been there before the webhooks: they do not judge it. */
  readonly seed: readonly ManifestObject[];
  readonly configurations: readonly ManifestObject[];
  /** SCCs are created when their webhooks listen: short ones are completed by them. */
  readonly sccs: readonly ManifestObject[];
}

/** The root of the package: its manifests lie beside the sources, and beside the bundle. */
const ROOT = fileURLToPath(new URL(import.meta.url.includes('/dist/') ? '..' : '../../..', import.meta.url));

/**
 * Reads what the embedded cluster starts with: a folder of manifests, by default that of the examples, and our own.
 * Rejects with a UserError that names file and line of what cannot be read.
 */
export async function readClusterManifests(folder: string | undefined, sccMode: SccMode): Promise<ClusterManifests> {
  const [definitions, psa, scc, own] = await Promise.all([
    readSeed(join(ROOT, 'webhook-config/crds')),
    readSeed(join(ROOT, 'webhook-config/psa.yaml')),
    readSeed(join(ROOT, 'webhook-config/scc.yaml')),
    readSeed(folder ?? join(ROOT, 'examples/cluster')),
  ]);
  return {
    definitions,
    seed: own.filter((one) => !isScc(one)),
    configurations: sccMode === 'off' ? psa : [...psa, ...scc],
    sccs: own.filter(isScc),
  };
}

function isScc({ value }: ManifestObject): boolean {
  return isObject(value) && value['kind'] === 'SecurityContextConstraints';
}
