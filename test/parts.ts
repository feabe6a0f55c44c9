/** The parts of the tests, which `run.ts` runs. */
import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import type { ToolName } from './tools/index.ts';

/** Files of the part `main`. Each runs in its own process. */
export const MAIN_FILES = [
  'test/*.test.ts',
  'test/cli/*.test.ts',
  'test/{fuzz,resilience,server}/**/*.test.ts',
] as const;

/** A set of test files that run together. */
export interface Part {
  readonly files: readonly string[];
  /** Number of files that run at the same time. Defaults to 1. */
  readonly concurrency?: number;
  readonly environment?: Readonly<Record<string, string>>;
  /** Programs that CI puts before all others in the PATH. */
  readonly tools?: readonly ToolName[];
}

const COMPILE_CACHE = { NODE_COMPILE_CACHE: join(import.meta.dirname, '../node_modules/.cache/compile') };

export const PARTS: Readonly<Record<string, Part>> = {
  main: {
    files: MAIN_FILES,
    concurrency: 4,
    environment: COMPILE_CACHE,
    tools: ['helm-3', 'kubectl'],
  },
  e2e: { files: ['test/e2e/*.test.ts'], concurrency: 2, tools: ['helm-3', 'kubectl'] },
  matrix: { files: ['test/matrix/*.test.ts'] },
  kubectl: { files: ['test/kubectl/*.test.ts'], concurrency: availableParallelism(), tools: ['kubectl'] },
  'kubectl-1.32': { files: ['test/kubectl/*.test.ts'], concurrency: availableParallelism(), tools: ['kubectl-1.32'] },
  'helm-4': { files: ['test/install/helm.test.ts', 'test/e2e/helm-kustomize.test.ts'], tools: ['helm-4', 'kubectl'] },
  web: { files: ['test/web/*.test.ts'] },
  release: { files: ['test/release/*.test.ts'], tools: ['helm-3', 'kubectl', 'pre-commit'] },
  upstream: { files: ['test/upstream/{field-types,manifests}.ts'] },
  conformance: { files: ['test/conformance/*.test.ts'] },
  policies: { files: ['test/conformance/policies.test.ts'], environment: { PORTCULLIS_ALL_POLICY_CASES: '1' } },
};
