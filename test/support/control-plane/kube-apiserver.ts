import { generateKeyPairSync } from 'node:crypto';
import { join } from 'node:path';
import { AUDIT_POLICY, readAuditLog } from './audit.ts';
import { startStandIn } from './controller-manager.ts';
import { createCredentials, type Credentials } from './credentials.ts';
import { freePorts, startDaemon, untilReady, type Daemon } from './process.ts';
import type { ControlPlane, ControlPlaneOptions } from './types.ts';
import type { ApiClient } from '../api-client.ts';

/** Starts etcd and kube-apiserver from that folder, and a stand-in for the controllers that tests depend on. */
export async function startKubeApiserver(
  assets: string,
  { podSecurityPlugin = 'off' }: ControlPlaneOptions,
): Promise<ControlPlane> {
  const credentials = await createCredentials();
  const [port = 0, etcdPort = 0, peerPort = 0] = await freePorts(3);
  const etcd = await startEtcd(assets, credentials.folder, etcdPort, peerPort).catch(async (error: unknown) => {
    await credentials.remove();
    throw error;
  });
  const plugins = podSecurityPlugin === 'off' ? ['--disable-admission-plugins=PodSecurity'] : [];
  const args = [...(await apiserverArgs(credentials, port, etcdPort)), ...plugins];
  const admin = credentials.administrator(port);
  const log = join(credentials.folder, 'kube-apiserver.log');
  const start = async (): Promise<Daemon> => {
    const daemon = startDaemon(join(assets, 'kube-apiserver'), args, log);
    await untilReady(daemon, 'kube-apiserver', log, async () => (await admin.send('GET', '/readyz')).status === 200);
    return daemon;
  };
  let apiserver = await start().catch(async (error: unknown) => {
    admin.close();
    await etcd.stop();
    await credentials.remove();
    throw error;
  });
  const standIn = startStandIn(admin);
  const address = `https://127.0.0.1:${port}`;
  return {
    which: 'kube-apiserver',
    title: `kube-apiserver ${await versionOf(admin)}`,
    server: address,
    authority: credentials.authority.cert,
    folder: credentials.folder,
    admin,
    kubeconfigFor: (user, groups) => credentials.kubeconfigFor(address, user, groups),
    calls: () => readAuditLog(join(credentials.folder, 'audit.log')),
    interrupt: () => apiserver.stop(),
    async resume() {
      apiserver = await start();
    },
    async stop() {
      await standIn.stop();
      admin.close();
      await apiserver.stop();
      await etcd.stop();
      await credentials.remove();
    },
  };
}

async function startEtcd(assets: string, folder: string, port: number, peerPort: number): Promise<Daemon> {
  const clients = `http://127.0.0.1:${port}`;
  const peers = `http://127.0.0.1:${peerPort}`;
  const log = join(folder, 'etcd.log');
  const daemon = startDaemon(
    join(assets, 'etcd'),
    [
      `--data-dir=${join(folder, 'etcd')}`,
      `--listen-client-urls=${clients}`,
      `--advertise-client-urls=${clients}`,
      `--listen-peer-urls=${peers}`,
      `--initial-advertise-peer-urls=${peers}`,
      `--initial-cluster=default=${peers}`,
      '--unsafe-no-fsync',
    ],
    log,
  );
  await untilReady(daemon, 'etcd', log, async () => (await fetch(`${clients}/health`)).ok);
  return daemon;
}

async function apiserverArgs(credentials: Credentials, port: number, etcdPort: number): Promise<string[]> {
  const { folder, authority, serving, write } = credentials;
  const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const pem = (key: typeof privateKey, type: 'pkcs8' | 'spki'): string =>
    key.export({ type, format: 'pem' } as never).toString();
  const accountKey = await write('accounts.key', pem(privateKey, 'pkcs8'));
  const accountPublicKey = await write('accounts.pub', pem(publicKey, 'spki'));
  return [
    '--bind-address=127.0.0.1',
    '--advertise-address=127.0.0.1',
    `--secure-port=${port}`,
    `--etcd-servers=http://127.0.0.1:${etcdPort}`,
    `--cert-dir=${folder}`,
    `--tls-cert-file=${await write('apiserver.crt', serving.cert)}`,
    `--tls-private-key-file=${await write('apiserver.key', serving.key)}`,
    `--client-ca-file=${await write('ca.crt', authority.cert)}`,
    '--service-account-issuer=https://kubernetes.default.svc',
    `--service-account-key-file=${accountPublicKey}`,
    `--service-account-signing-key-file=${accountKey}`,
    '--service-cluster-ip-range=10.0.0.0/24',
    '--authorization-mode=RBAC',
    '--allow-privileged=true',
    `--audit-policy-file=${await write('audit-policy.yaml', AUDIT_POLICY)}`,
    `--audit-log-path=${join(folder, 'audit.log')}`,
  ];
}

async function versionOf(admin: ApiClient): Promise<string> {
  const { body } = await admin.send('GET', '/version');
  return (body as { readonly gitVersion: string }).gitVersion;
}
