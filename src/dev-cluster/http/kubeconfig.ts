import { chmod, writeFile } from 'node:fs/promises';
import type { KeyPair } from '../../tls/key-pair.ts';

const NAME = 'portcullis';

export interface Kubeconfig {
  /** Such as `https://127.0.0.1:6443`. */
  readonly server: string;
  /** PEM. */
  readonly authority: string;
  readonly client: KeyPair;
}

/** A kubeconfig with one context, the certificates inside. */
export function kubeconfig({ server, authority, client }: Kubeconfig): string {
  return `apiVersion: v1
kind: Config
clusters:
- name: ${NAME}
  cluster:
    server: ${server}
    certificate-authority-data: ${base64(authority)}
users:
- name: ${NAME}-admin
  user:
    client-certificate-data: ${base64(client.cert)}
    client-key-data: ${base64(client.key)}
contexts:
- name: ${NAME}
  context:
    cluster: ${NAME}
    user: ${NAME}-admin
current-context: ${NAME}
`;
}

/** Writes a kubeconfig that only its owner can read: it holds a key. */
export async function writeKubeconfig(path: string, config: Kubeconfig): Promise<void> {
  await writeFile(path, kubeconfig(config), { mode: 0o600 });
  // The mode above is for new files only.
  await chmod(path, 0o600);
}

function base64(text: string): string {
  return Buffer.from(text).toString('base64');
}
