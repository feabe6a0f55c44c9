import { connect } from 'node:tls';
import type { Connection } from '../../../cluster/connect.ts';
import { networkError } from '../../../cluster/network-error.ts';
import { INSTALLATION } from '../../../kube/installation.ts';
import { RESOURCES } from '../../../kube/resources.ts';
import type { Kinds, Secret } from '../../../kube/types.ts';
import { ifThere } from '../../installation/connect.ts';
import { objectPath } from '../../installation/resource.ts';
import type { Fact, ServedCertificate } from '../types.ts';
import { look } from './look.ts';
import { mountedFile } from './mounted.ts';

/** The certificate that replicas read, from the Secret where it is kept. */
export async function lookAtSecret(
  connection: Connection,
  namespace: string,
  deployment: Kinds['Deployment'] | undefined,
  signal: AbortSignal,
): Promise<Fact<ServedCertificate>> {
  const mounted = mountedFile(deployment, 'tls-cert-file');
  const { name, key } = mounted?.kind === 'Secret' ? mounted : { name: INSTALLATION.certificateSecret, key: 'tls.crt' };
  const path = objectPath(RESOURCES.Secret, name, namespace);
  return await look(async () => {
    const secret = (await ifThere(() => connection.request({ method: 'GET', path, signal }))) as Secret | undefined;
    const data = secret?.data?.[key];
    return {
      source: `secrets/${name}`,
      chain: data === undefined ? undefined : Buffer.from(data, 'base64').toString('latin1'),
    };
  });
}

const TIMEOUT_MS = 5000;

/** The certificate that is served at an address, whoever signed it. */
export function lookAtAddress(origin: string): Promise<Fact<ServedCertificate>> {
  const { hostname, port } = new URL(origin);
  const host = hostname.replace(/^\[(.*)\]$/, '$1');
  return new Promise((resolve) => {
    // It is only looked at: nothing is sent that a stranger might not read.
    const socket = connect({ host, port: Number(port || '443'), rejectUnauthorized: false, timeout: TIMEOUT_MS });
    const end = (fact: Fact<ServedCertificate>): void => {
      socket.destroy();
      resolve(fact);
    };
    socket.once('secureConnect', () => {
      const certificates = chainOf(socket.getPeerX509Certificate());
      end({ value: { source: origin, chain: certificates.map(String).join('') } });
    });
    socket.once('timeout', () => end({ unknown: `${origin}: no answer in ${TIMEOUT_MS / 1000} s` }));
    socket.once('error', (error) => end({ unknown: `${origin}: ${networkError(error, origin)}` }));
  });
}

type Certificate = NonNullable<ReturnType<ReturnType<typeof connect>['getPeerX509Certificate']>>;

/** No chain in use is longer. */
const MAX_CHAIN = 10;

function chainOf(leaf: Certificate | undefined): readonly Certificate[] {
  const chain: Certificate[] = [];
  for (let cert = leaf; cert && chain.length < MAX_CHAIN; cert = cert.issuerCertificate) chain.push(cert);
  return chain;
}
