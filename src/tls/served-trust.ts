import type { KeyPair } from './key-pair.ts';
import {
  enforcingWebhooks,
  hasCaInjection,
  isPartOfPortcullis,
  getWebhooks,
  type RegisteredWebhook,
  type WebhookConfiguration,
} from '../kube/webhooks.ts';
import { pemOf } from './bundle.ts';
import { trustProblem } from './trust.ts';

/** The service by which API servers reach this program. */
export interface Service {
  readonly namespace: string;
  readonly name: string;
}

export interface ServedTrust {
  readonly pair: Pick<KeyPair, 'cert'>;
  readonly configurations: readonly WebhookConfiguration[];
  readonly service: Service;
  readonly now: Date;
}

/**
 * Where API servers would refuse what is served, one phrase for each webhook that counts: of those that ask here, what holds
 * requests up. Empty if nowhere.
 */
export function findTrustProblems(served: ServedTrust): string[] {
  return problemsAt(decisiveHere(served), served).map(({ name, problem }) => `${name}: ${problem}`);
}

/**
 * The same for webhooks that do not count: those beside them in the configurations, and all of further ones, which somebody
 * else has made.
 */
export function findOtherTrustProblems(served: ServedTrust, further: readonly WebhookConfiguration[]): string[] {
  const counting = new Set(decisiveHere(served).map(keyOf));
  const others = [
    ...webhooksHere(served).filter((webhook) => !counting.has(keyOf(webhook))),
    ...webhooksHere({ ...served, configurations: further }),
  ];
  return problemsAt(others, served).map(({ name, of, problem }) => `${name} in ${of}: ${problem}`);
}

/** A webhook that asks here. */
interface WebhookHere extends RegisteredWebhook {
  /** The name of its configuration. */
  readonly of: string;
  /** True if somebody fills in whom the API server is to trust. */
  readonly isInjected: boolean;
}

function webhooksHere({ configurations, service }: Pick<ServedTrust, 'configurations' | 'service'>): WebhookHere[] {
  return configurations.filter(isPartOfPortcullis).flatMap((configuration) =>
    getWebhooks(configuration)
      .filter((webhook) => isServedHere(webhook, service))
      .map((webhook) => ({
        ...webhook,
        of: configuration.metadata?.name ?? '',
        isInjected: hasCaInjection(configuration),
      })),
  );
}

function decisiveHere(served: ServedTrust): readonly WebhookHere[] {
  return enforcingWebhooks(webhooksHere(served));
}

function keyOf({ of, name }: WebhookHere): string {
  return `${of} ${name}`;
}

function problemsAt(webhooks: readonly WebhookHere[], { pair, now }: ServedTrust) {
  // Most webhooks trust the same.
  const known = new Map<string, string | undefined>();
  const problemOf = ({ caBundle, host = '', isInjected }: WebhookHere): string | undefined => {
    if (caBundle === '') return isInjected ? 'caBundle is still empty' : undefined;
    const key = `${host} ${caBundle}`;
    const authorities = pemOf(caBundle);
    if (!known.has(key)) known.set(key, trustProblem({ chain: pair.cert, authorities, host, now }));
    return known.get(key);
  };
  return webhooks.flatMap((webhook) => {
    const problem = problemOf(webhook);
    return problem === undefined ? [] : [{ name: webhook.name, of: webhook.of, problem }];
  });
}

/** Behind a URL may be anybody, but a configuration of ours means us. */
function isServedHere({ service, host }: RegisteredWebhook, ours: Service): boolean {
  return service ? service.namespace === ours.namespace && service.name === ours.name : host !== undefined;
}
