import { spawnSync } from 'node:child_process';
import { join } from 'node:path';

const HELM = process.env['HELM'] ?? 'helm';

export const CHART = join(import.meta.dirname, '../../webhook-config/helm/portcullis');

/** Reason to skip tests, or false if helm is available. */
export const withoutHelm =
  spawnSync(HELM, ['version'], { stdio: 'ignore' }).status === 0
    ? false
    : 'helm is neither in PATH nor named by the variable HELM';

/** Runs helm. Release commands require the KUBECONFIG environment variable. */
export function runHelm(args: readonly string[], env: Readonly<Record<string, string>> = {}, input?: string) {
  const options = { timeout: 60_000, maxBuffer: 64 * 1024 * 1024, env: { ...process.env, ...env } };
  return spawnSync(HELM, args, { encoding: 'utf8', ...options, ...(input === undefined ? {} : { input }) });
}
