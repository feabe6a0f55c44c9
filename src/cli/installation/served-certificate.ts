/** Reads the certificate that a server presents at a URL. */
import { connect } from 'node:tls';
import { networkError } from '../../cluster/network-error.ts';

const TIMEOUT_MS = 5000;

/** Certificate chain in PEM, or the reason it could not be read. */
type ChainResult = { readonly chain: string } | { readonly unknown: string };

/** Reads a server's certificate chain without verification, because no data is sent over the connection. */
export function readServerCertificate(origin: string): Promise<ChainResult> {
  const { hostname, port } = new URL(origin);
  const host = hostname.replace(/^\[(.*)\]$/, '$1');
  return new Promise((resolve) => {
    const socket = connect({ host, port: Number(port || '443'), rejectUnauthorized: false, timeout: TIMEOUT_MS });
    const finish = (result: ChainResult): void => {
      socket.destroy();
      resolve(result);
    };
    socket.once('secureConnect', () => {
      finish({ chain: certificateChain(socket.getPeerX509Certificate()).map(String).join('') });
    });
    socket.once('timeout', () => finish({ unknown: `${origin}: no response within ${TIMEOUT_MS / 1000} s` }));
    socket.once('error', (error) => finish({ unknown: `${origin}: ${networkError(error, origin)}` }));
  });
}

type Certificate = NonNullable<ReturnType<ReturnType<typeof connect>['getPeerX509Certificate']>>;

/** Maximum length of a certificate chain, which also ends the loop if the chain is cyclic. */
const MAX_CHAIN_LENGTH = 10;

function certificateChain(leaf: Certificate | undefined): readonly Certificate[] {
  const chain: Certificate[] = [];
  for (let cert = leaf; cert && chain.length < MAX_CHAIN_LENGTH; cert = cert.issuerCertificate) chain.push(cert);
  return chain;
}
