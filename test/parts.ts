/** The parts of the tests, which `run.ts` runs. */
import { existsSync, globSync, statSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import type { RunResults } from './support/run-files.ts';
import type { ToolName } from './tools/index.ts';

/** The result of a part. The numbers of tests are absent if the part runs no tests. */
export type Outcome = Pick<RunResults, 'success'> &
  Partial<Pick<RunResults, 'passed' | 'failed' | 'skips' | 'failures' | 'rows'>>;

export interface Part {
  /** Programs of npm packages that run before the tests. Each program runs even if another program fails. */
  readonly commands?: readonly (readonly [program: string, ...string[]])[];
  /** Patterns of test files. */
  readonly files?: readonly string[];
  /** Runs the part instead of `files`, with the arguments of the command line. */
  readonly main?: (args: readonly string[]) => Promise<Outcome>;
  /** Number of files that run at the same time. Defaults to 1. */
  readonly concurrency?: number;
  /** Maximum duration of a file. */
  readonly timeoutMs?: number;
  readonly environment?: Readonly<Record<string, string>>;
  /** Programs that CI puts at the beginning of the PATH. */
  readonly tools?: readonly ToolName[];
}

const COMPILE_CACHE = { NODE_COMPILE_CACHE: join(import.meta.dirname, '../node_modules/.cache/compile') };

/** The test of the rules for imports and exports. */
const RULES = 'test/architecture.test.ts';

export const PARTS: Readonly<Record<string, Part>> = {
  check: { commands: [['oxfmt', '--check'], ['oxlint']], files: [RULES] },
  main: {
    files: globSync(['test/*.test.ts', 'test/cli/*.test.ts', 'test/{fuzz,resilience,server}/**/*.test.ts'], {
      exclude: [RULES],
    }),
    concurrency: 4,
    environment: COMPILE_CACHE,
    tools: ['helm-3', 'kubectl'],
  },
  e2e: { main: async (args) => (await import('./e2e/main.ts')).main(args), tools: ['helm-3', 'kubectl'] },
  matrix: folder('matrix'),
  kubectl: { ...folder('kubectl'), concurrency: availableParallelism(), tools: ['kubectl'] },
  'kubectl-1.32': { ...folder('kubectl'), concurrency: availableParallelism(), tools: ['kubectl-1.32'] },
  'helm-4': { files: ['test/install/helm.test.ts', 'test/e2e/helm-kustomize.test.ts'], tools: ['helm-4', 'kubectl'] },
  upstream: folder('upstream'),
  web: folder('web'),
  release: { ...folder('release'), tools: ['helm-3', 'kubectl', 'pre-commit'] },
  policies: { files: ['test/conformance/policies.test.ts'], environment: { PORTCULLIS_ALL_POLICY_CASES: '1' } },
  fuzz: { main: async (args) => (await import('./fuzz/main.ts')).main(args) },
  resilience: { files: ['test/resilience/*.resilience.ts'], timeoutMs: Infinity },
  'full-cluster': { ...folder('full-cluster'), timeoutMs: Infinity },
  charts: { main: async (args) => (await import('./charts/main.ts')).main(args) },
};

/** The parts that run without arguments. */
export const DEFAULT = ['check', 'main'];
/** The parts that CI runs. `main` includes the conformance tests. */
export const ALL = [...DEFAULT, 'e2e', 'matrix', 'kubectl', 'kubectl-1.32', 'helm-4', 'upstream', 'web', 'release'];

/** Folders below test/ that belong to a part other than `main`. */
export const OTHER_FOLDERS = ['e2e', 'full-cluster', 'kubectl', 'matrix', 'release', 'upstream', 'web'];

function folder(name: string): Part {
  return { files: [`test/${name}/**/*.test.ts`] };
}

/** Returns the part with a name, or a part with the tests in a folder below test/ or in a file. */
export function findPart(name: string): Part {
  const part = PARTS[name];
  if (part !== undefined) return part;
  const path = [name, join('test', name)].find((candidate) => existsSync(candidate));
  if (path === undefined) {
    throw new Error(`"${name}" is not a part or a folder of test/: use all, ${Object.keys(PARTS).join(', ')}`);
  }
  return { files: [statSync(path).isDirectory() ? join(path, '**/*.test.ts') : path] };
}
