/** The output of the program without arguments: the next commands for the current directory and the kubeconfig. */
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { findCluster } from '../cluster/cluster-source.ts';
import { POD_SOURCES } from '../cluster/workloads.ts';
import { openRegularFile } from '../config/files.ts';
import { CHART_FILE } from '../config/objects.ts';
import { LIMITS } from '../kube/limits.ts';
import { shellQuote } from '../kube/text.ts';
import { UserError } from '../kube/user-error.ts';
import { type Io, printPage } from './command.ts';
import { printTable } from './output/print.ts';

type Step = readonly [command: string, purpose: string];

/** Prints the next commands. It reads local files only, and sends no request to the cluster. */
export async function printGuide({ text, env }: Pick<Io, 'text' | 'env'>): Promise<void> {
  const [manifests, cluster] = await Promise.all([manifestSteps('.'), clusterSteps(env)]);
  const found = [...manifests, ...cluster];
  const steps = found.length > 0 ? found : START;
  const table = printTable([...steps, ['portcullis --help', 'list all commands']], { indent: '  ' });
  const here = found.length > 0 ? 'Next commands' : 'There are no manifests here, and no kubeconfig. Next commands';
  text.write(`Shows what Pod Security would deny, fixes it, and enforces it.\n\n${here}:\n\n${table}`);
}

const START: readonly Step[] = [
  ['portcullis serve --dev-cluster', 'try it with an in-memory cluster'],
  ['portcullis check -f FILE --fix', `fix manifests: ${printPage('how-to/check.md')}`],
];

const CHECK = 'check the rendered manifests';
const KUSTOMIZATION_FILE = /^(?:kustomization\.ya?ml|Kustomization)$/;
const YAML_FILE = /\.ya?ml$/;
const KIND = /^kind: *["']?(\w+)["']?\s*(?:#.*)?$/gm;
/** Limits the time of the search in directories such as the home directory. */
const MAX_FILES = 100;

/** Finds a Helm chart, a kustomization, or files with workloads in a directory and its direct subdirectories. */
async function manifestSteps(folder: string, isNested = false): Promise<readonly Step[]> {
  const entries = await readdir(folder, { withFileTypes: true }).catch(() => []);
  const names = entries.map(({ name }) => name).sort();
  const at = shellQuote(folder);
  if (names.includes(CHART_FILE)) return [[`helm template ${at} | portcullis check -f -`, CHECK]];
  if (names.some((name) => KUSTOMIZATION_FILE.test(name)))
    return [[`kubectl kustomize ${at} | portcullis check -f -`, CHECK]];
  const files = names
    .filter((name) => YAML_FILE.test(name))
    .slice(0, MAX_FILES)
    .map((name) => join(folder, name));
  const texts = await Promise.all(files.map((file) => readStart(file).catch(() => '')));
  const workloads = files.filter((_, index) => hasWorkload(texts[index] ?? ''));
  const target = workloads.length === 1 ? shellQuote(workloads[0] ?? '') : at;
  const own: readonly Step[] =
    workloads.length === 0 ? [] : [[`portcullis check -f ${target} --fix`, 'fix the manifests']];
  if (isNested || own.length > 0) return own;
  const folders = entries
    .filter((one) => one.isDirectory() && !/^\.|^node_modules$/.test(one.name))
    .slice(0, MAX_FILES);
  return (await Promise.all(folders.map(({ name }) => manifestSteps(name, true)))).flat().sort();
}

/** Reads the beginning of a file, which is enough for a suggestion. */
async function readStart(file: string): Promise<string> {
  await using handle = await openRegularFile(file);
  const { buffer, bytesRead } = await handle.read(Buffer.alloc(LIMITS.guideFileBytes));
  return buffer.toString('utf8', 0, bytesRead);
}

function hasWorkload(text: string): boolean {
  return [...text.matchAll(KIND)].some(([, kind]) => POD_SOURCES.some((one) => one === kind));
}

async function clusterSteps(env: Io['env']): Promise<readonly Step[]> {
  try {
    const target = await findCluster({ env });
    if (target === undefined) return [];
    return [
      ['portcullis rollout plan', `show what enforcement would deny at ${target.server}`],
      ['portcullis report > report.html', 'write a report with fixes'],
    ];
  } catch (error) {
    if (error instanceof UserError) return [];
    throw error;
  }
}
