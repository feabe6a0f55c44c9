/**
 * Programs that tests run. `findTools` builds missing programs with Go, or installs them with pip, and keeps them in the
 * folder `~/.cache/portcullis/tools` or in the folder that PORTCULLIS_TOOLS names.
 */
import { type SpawnSyncOptions, spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, renameSync, rmSync } from 'node:fs';
import { homedir } from 'node:os';
import { dirname, join } from 'node:path';

/** A program and the way to install it. */
interface Tool {
  /** Version, which is part of the folder's name. */
  readonly version: string;
  /** Path of the program in its folder. */
  readonly program: string;
  /** Commands that install the program into a folder. */
  install(folder: string): readonly Command[];
}

interface Command extends Pick<SpawnSyncOptions, 'cwd' | 'env'> {
  readonly args: readonly [program: string, ...string[]];
}

export const TOOLS = {
  'helm-3': helm('v3.22.0', 'helm.sh/helm/v3/cmd/helm'),
  'helm-4': helm('v4.3.2', 'helm.sh/helm/v4/cmd/helm'),
  kubectl: kubectl('v1.37.2', 'go.mod'),
  /** The oldest version that is tested. */
  'kubectl-1.32': kubectl('v1.32.3', 'go-1.32.mod'),
  'pre-commit': {
    version: '4.7.0',
    program: 'bin/pre-commit',
    install: (folder) => [
      { args: ['python3', '-m', 'venv', folder] },
      { args: [join(folder, 'bin/pip'), 'install', '--quiet', 'pre-commit==4.7.0'] },
    ],
  },
} as const satisfies Readonly<Record<string, Tool>>;

export type ToolName = keyof typeof TOOLS;

function helm(version: string, path: string): Tool {
  return {
    version,
    program: 'helm',
    install: (folder) => [{ args: ['go', 'install', `${path}@${version}`], env: { GOBIN: folder } }],
  };
}

/** Returns the version of the Go module of kubectl, which is `v0.X.Y` for Kubernetes 1.X.Y. */
function kubectl(version: string, modfile: string): Tool {
  const variables = 'k8s.io/component-base/version.gitVersion';
  return {
    version,
    program: 'kubectl',
    install: (folder) => [
      {
        args: ['go', 'build', `-modfile=${modfile}`, '-ldflags', `-X ${variables}=${version}`, '-o', folder, '.'],
        cwd: join(import.meta.dirname, 'kubectl'),
      },
    ],
  };
}

/**
 * Returns the folders of programs by name. Installs missing programs.
 * @throws {Error} if a program cannot be installed
 */
export function findTools(names: readonly ToolName[]): ReadonlyMap<ToolName, string> {
  const cache = process.env['PORTCULLIS_TOOLS'] ?? join(homedir(), '.cache/portcullis/tools');
  return new Map(names.map((name) => [name, findTool(name, TOOLS[name], cache)]));
}

function findTool(name: string, { version, program, install }: Tool, cache: string): string {
  const folder = join(cache, `${name}-${version}`);
  if (existsSync(join(folder, program))) return dirname(join(folder, program));
  process.stdout.write(`installing ${name} ${version} in ${folder}\n`);
  mkdirSync(cache, { recursive: true });
  // Other programs are moved into place when they are complete. This is not possible with pip, because it writes the
  // path of the folder into its programs.
  const isMovable = name !== 'pre-commit';
  const target = isMovable ? mkdtempSync(`${folder}-`) : folder;
  for (const command of install(target)) {
    const [file, ...args] = command.args;
    const env = { ...process.env, GOFLAGS: '', ...command.env };
    const { status, error } = spawnSync(file, args, { ...command, env, stdio: 'inherit' });
    if (status === 0) continue;
    rmSync(target, { recursive: true, force: true });
    throw new Error(`the tests need ${name} ${version}, but "${file} ${args.join(' ')}" failed`, { cause: error });
  }
  if (isMovable) renameSync(target, folder);
  return dirname(join(folder, program));
}
