/**
 * `npm run test:e2e -- [--versions=1.30,1.37] [--record] [FILE...]`: runs the end-to-end tests.
 *
 * Without KUBEBUILDER_ASSETS, the tests use the development cluster. With --versions, that variable is a folder that
 * contains a folder of binaries for each version, named `1.30` or, as by setup-envtest, `1.30.3-linux-amd64`. A test
 * that is skipped because of the API server fails the run unless results.json contains the skip for the same version.
 * --record writes that file.
 */
import { spawnSync } from 'node:child_process';
import { existsSync, globSync, readdirSync, writeFileSync } from 'node:fs';
import { basename, join, relative } from 'node:path';
import { parseArgs } from 'node:util';
import { runFiles } from '../support/run-files.ts';
import { type FileResult, findNewSkips, readResults, RESULTS, withoutEnvironment } from './results.ts';

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    versions: { type: 'string' },
    record: { type: 'boolean', default: false },
    concurrency: { type: 'string', default: '2' },
  },
});
const assets = process.env['KUBEBUILDER_ASSETS'] || undefined;
const files = positionals.length > 0 ? positionals : globSync('test/e2e/*.test.ts').sort();

/** Returns the folder with the binaries of a minor version. */
function findFolder(root: string, version: string): string {
  const name = readdirSync(root).find((one) => one === version || one.startsWith(`${version}.`));
  if (name === undefined) throw new Error(`KUBEBUILDER_ASSETS=${root} has no folder for ${version}`);
  return join(root, name);
}

/** Returns the version of the kube-apiserver in a folder, such as `v1.30.14`. */
function readVersion(folder: string): string {
  const { stdout } = spawnSync(join(folder, 'kube-apiserver'), ['--version'], { encoding: 'utf8' });
  const version = /v\d+\.\d+\.\d+\S*/.exec(stdout ?? '')?.[0];
  if (version === undefined) throw new Error(`${folder} has no kube-apiserver that runs`);
  return version;
}

/** Runs the files. Resolves to the results of the files in which nothing failed, and to the failed files, by file name. */
async function runAll() {
  const { success, passedFiles, failedFiles, skips } = await runFiles(files, Number(values.concurrency));
  const key = (file: string): string => basename(file, '.test.ts');
  const passed = [...passedFiles].map(([file, count]): readonly [string, FileResult] => {
    const skipped = skips.filter((skip) => skip.file === file).map(({ name, reason }) => [name, reason] as const);
    return [key(file), { passed: count, skipped: Object.fromEntries(skipped) }];
  });
  return { passed: new Map(passed), failed: new Set([...failedFiles].map(key)), success };
}

async function runVersion(folder: string | undefined): Promise<void> {
  if (folder === undefined) {
    if (!(await runAll()).success) process.exitCode = 1;
    return;
  }
  const version = readVersion(folder);
  const minor = version.split('.').slice(0, 2).join('.').slice(1);
  process.env['KUBEBUILDER_ASSETS'] = folder;
  process.stdout.write(`\nkube-apiserver ${version}\n`);
  const { passed, failed, success } = await runAll();
  const results = readResults();
  const problems = values.record ? [] : findNewSkips(results[minor], passed);
  for (const problem of problems) process.stdout.write(`kube-apiserver ${version}: ${problem}\n`);
  if (!success || problems.length > 0) process.exitCode = 1;
  if (!values.record) return;
  const kept = Object.entries(results[minor]?.files ?? {}).filter(([name]) => !failed.has(name));
  const recorded = [...passed].map(([file, result]) => [file, withoutEnvironment(result)] as const);
  const all = Object.fromEntries([...new Map([...kept, ...recorded])].sort(([a], [b]) => a.localeCompare(b)));
  results[minor] = { version, date: new Date().toISOString().slice(0, 10), files: all };
  const ordered = Object.entries(results).sort(([a], [b]) => a.localeCompare(b, 'en', { numeric: true }));
  writeFileSync(RESULTS, `${JSON.stringify(Object.fromEntries(ordered), null, 2)}\n`);
  process.stdout.write(`recorded in ${relative(process.cwd(), RESULTS)}\n`);
}

if (values.versions !== undefined && assets === undefined) {
  throw new Error(
    '--versions requires KUBEBUILDER_ASSETS: a directory with one directory of binaries for each version',
  );
}
if (values.versions !== undefined) {
  for (const version of values.versions.split(',')) await runVersion(findFolder(String(assets), version));
} else {
  await runVersion(assets !== undefined && existsSync(join(assets, 'kube-apiserver')) ? assets : undefined);
}
