/**
 * `node test/run.ts e2e [--versions=1.32,1.37] [--record] [FILE...]`: runs the end-to-end tests.
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
import type { Outcome } from '../parts.ts';
import { runFiles, type RunResults } from '../support/run-files.ts';
import { type FileResult, findNewSkips, readResults, RESULTS, withoutEnvironment } from './results.ts';

/** Returns the folder with the binaries of a minor version. */
function findFolder(root: string, version: string): string {
  const name = readdirSync(root).find((entry) => entry === version || entry.startsWith(`${version}.`));
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

interface Options {
  readonly files: readonly string[];
  readonly concurrency: number;
  readonly isRecorded: boolean;
}

/** Runs the files with the binaries in a folder, and compares the skips with results.json or records them. */
async function runVersion(folder: string, { files, concurrency, isRecorded }: Options): Promise<RunResults> {
  const version = readVersion(folder);
  const minor = version.split('.').slice(0, 2).join('.').slice(1);
  process.env['KUBEBUILDER_ASSETS'] = folder;
  process.stdout.write(`\nkube-apiserver ${version}\n`);
  const run = await runFiles(files, concurrency);
  const key = (file: string): string => basename(file, '.test.ts');
  const passed = new Map(
    [...run.passedFiles].map(([file, count]): readonly [string, FileResult] => {
      const skipped = run.skips.filter((skip) => skip.file === file).map(({ name, reason }) => [name, reason] as const);
      return [key(file), { passed: count, skipped: Object.fromEntries(skipped) }];
    }),
  );
  const results = readResults();
  if (!isRecorded) {
    const problems = findNewSkips(results[minor], passed);
    for (const problem of problems) process.stdout.write(`kube-apiserver ${version}: ${problem}\n`);
    return { ...run, success: run.success && problems.length === 0 };
  }
  const failed = new Set([...run.failedFiles].map(key));
  const previous = Object.entries(results[minor]?.files ?? {}).filter(([name]) => !failed.has(name));
  const recorded = [...passed].map(([file, result]) => [file, withoutEnvironment(result)] as const);
  const all = [...new Map([...previous, ...recorded])].sort(([a], [b]) => a.localeCompare(b));
  results[minor] = { version, date: new Date().toISOString().slice(0, 10), files: Object.fromEntries(all) };
  const ordered = Object.entries(results).sort(([a], [b]) => a.localeCompare(b, 'en', { numeric: true }));
  writeFileSync(RESULTS, `${JSON.stringify(Object.fromEntries(ordered), null, 2)}\n`);
  process.stdout.write(`recorded in ${relative(process.cwd(), RESULTS)}\n`);
  return run;
}

export async function main(args: readonly string[]): Promise<Outcome> {
  const { values, positionals } = parseArgs({
    args: [...args],
    allowPositionals: true,
    options: {
      versions: { type: 'string' },
      record: { type: 'boolean', default: false },
      concurrency: { type: 'string', default: '2' },
    },
  });
  const options: Options = {
    files: positionals.length > 0 ? positionals : globSync('test/e2e/*.test.ts').sort(),
    concurrency: Number(values.concurrency),
    isRecorded: values.record,
  };
  const assets = process.env['KUBEBUILDER_ASSETS'] || undefined;
  if (values.versions === undefined) {
    return assets !== undefined && existsSync(join(assets, 'kube-apiserver'))
      ? await runVersion(assets, options)
      : await runFiles(options.files, options.concurrency);
  }
  if (assets === undefined) {
    throw new Error(
      '--versions requires KUBEBUILDER_ASSETS: a directory with one directory of binaries for each version',
    );
  }
  const outcomes: RunResults[] = [];
  for (const version of values.versions.split(',')) {
    outcomes.push(await runVersion(findFolder(assets, version), options));
  }
  return {
    success: outcomes.every(({ success }) => success),
    passed: outcomes.reduce((sum, { passed }) => sum + passed, 0),
    failed: outcomes.reduce((sum, { failed }) => sum + failed, 0),
    skips: outcomes.flatMap(({ skips }) => skips),
    failures: outcomes.flatMap(({ failures }) => failures),
  };
}
