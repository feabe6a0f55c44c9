import { spawn, spawnSync } from 'node:child_process';
import { mkdir, writeFile } from 'node:fs/promises';
import { join, relative } from 'node:path';

/** True if kubectl is available. */
export const hasKubectl = spawnSync('kubectl', ['version', '--client'], { stdio: 'ignore' }).status === 0;

/** The folder that contains the kustomize base and its components. */
export const MANIFESTS = join(import.meta.dirname, '../../webhook-config');

/** Writes a user's kustomization with the base and components, and returns its folder. */
export async function writeOverlay(
  folder: string,
  components: readonly string[],
  manifests = MANIFESTS,
): Promise<string> {
  const base = relative(folder, manifests);
  const kustomization = { resources: [base], components: components.map((name) => join(base, 'components', name)) };
  await mkdir(folder, { recursive: true });
  await writeFile(join(folder, 'kustomization.yaml'), JSON.stringify(kustomization));
  return folder;
}

export interface KubectlResult {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** Returns a function that runs kubectl against a cluster. */
export function createKubectl(
  kubeconfig: string,
  variables: Readonly<Record<string, string>> = {},
): (args: readonly string[], stdin?: string) => Promise<KubectlResult> {
  return (args, stdin = '') =>
    new Promise((resolve, reject) => {
      const env = { ...process.env, ...variables, KUBECONFIG: kubeconfig };
      const child = spawn('kubectl', args, { env, timeout: 20_000 });
      let stdout = '';
      let stderr = '';
      child.stdout.on('data', (chunk: Buffer) => (stdout += chunk.toString()));
      child.stderr.on('data', (chunk: Buffer) => (stderr += chunk.toString()));
      child.on('error', reject);
      child.on('close', (code) => resolve({ code: code ?? -1, stdout, stderr }));
      child.stdin.on('error', () => undefined);
      child.stdin.end(stdin);
    });
}
