import { createHash } from 'node:crypto';
import type { Store } from '../cluster/store.ts';
import type { Secret } from '../kube/types.ts';
import {
  CONFIGURATION_KINDS,
  decisive,
  isInstalled,
  isOurs,
  webhooksOf,
  type WebhookConfiguration,
} from '../kube/webhook-configuration.ts';
import { keyPairError, type KeyPair } from '../tls/key-pair.ts';
import { fingerprintOf } from '../tls/pem.ts';
import { findTrustProblems, type Service } from '../tls/served-trust.ts';
import { textsOf } from './serving-certificate-state.ts';

/** The configurations of webhooks that are those of the installation. */
export function ourConfigurations(store: Store): readonly WebhookConfiguration[] {
  return CONFIGURATION_KINDS.flatMap((kind) =>
    store.list(kind).filter((one: WebhookConfiguration) => isOurs(one) && isInstalled(kind, one.metadata?.name)),
  );
}

/** Those that say that they are ours, but have other names: copies, and what another version has left. */
export function strangeConfigurations(store: Store): readonly WebhookConfiguration[] {
  return CONFIGURATION_KINDS.flatMap((kind) =>
    store.list(kind).filter((one: WebhookConfiguration) => isOurs(one) && !isInstalled(kind, one.metadata?.name)),
  );
}

/** A text that changes with whom API servers trust where that counts. */
export function trustMark(configurations: readonly WebhookConfiguration[]): string {
  const bundles = decisive(configurations.flatMap(webhooksOf)).map(({ name, caBundle }) => `${name} ${caBundle}`);
  return createHash('sha256').update(bundles.join('\n')).digest('hex');
}

/** The pair that the Secret offers, or what is wrong with it. */
export function offeredPair(secret: Secret | undefined, now: Date): KeyPair | { readonly problem: string } {
  if (!secret) return { problem: 'there is no Secret yet' };
  const texts = textsOf(secret);
  const pair = { cert: texts.get('tls.crt') ?? '', key: texts.get('tls.key') ?? '' };
  const problem = keyPairError(pair, { cert: 'tls.crt', key: 'tls.key' }, now);
  return problem === undefined ? pair : { problem };
}

export interface ServeChoice {
  /** What is served now; absent: only something for the meantime. */
  readonly current: KeyPair | undefined;
  readonly offered: KeyPair;
  readonly configurations: readonly WebhookConfiguration[];
  /** How long they have trusted the same. */
  readonly unchangedMs: number;
  readonly service: Service;
  readonly now: Date;
}

/** Of two pairs that API servers take the new one is served when all of them have had so long to learn of its authority. */
const KNOWN_MS = 10_000;

/** In how many milliseconds the offered pair is to be served: 0 at once, `undefined` not before more of them trust it. */
export function serveInMs(choice: ServeChoice): number | undefined {
  const { current, offered, unchangedMs } = choice;
  if (!current) return 0;
  if (fingerprintOf(current.cert) === fingerprintOf(offered.cert)) return undefined;
  const isTaken = (pair: KeyPair): boolean => findTrustProblems({ ...choice, pair }).length === 0;
  // What nobody takes is not worth keeping.
  if (!isTaken(current)) return 0;
  return isTaken(offered) ? Math.max(0, KNOWN_MS - unchangedMs) : undefined;
}
