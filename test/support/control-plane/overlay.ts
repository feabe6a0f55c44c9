import { cp, mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const SOURCE = fileURLToPath(new URL('../../../webhook-config/', import.meta.url));
/** Where the manifests for API servers without a service network have the webhooks. */
const ADDRESS = /127\.0\.0\.1:8443/g;

/**
 * Copies `webhook-config/` into a folder, its webhooks at that port of loopback, and returns the path of an overlay of it
 * that joins components.
 */
export async function copyOverlay(components: readonly string[], folder: string, port: number): Promise<string> {
  const copy = join(folder, 'webhook-config');
  await cp(SOURCE, copy, { recursive: true });
  const file = join(copy, 'components/local/kustomization.yaml');
  await writeFile(file, (await readFile(file, 'utf8')).replaceAll(ADDRESS, `127.0.0.1:${port}`));
  const overlay = join(copy, 'overlays/joined');
  await mkdir(overlay);
  const kustomization = {
    apiVersion: 'kustomize.config.k8s.io/v1beta1',
    kind: 'Kustomization',
    resources: ['../../base'],
    components: components.map((name) => `../../components/${name}`),
  };
  await writeFile(join(overlay, 'kustomization.yaml'), JSON.stringify(kustomization));
  return overlay;
}
