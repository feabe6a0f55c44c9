import type { KeyPair } from './key-pair.ts';
import {
  isInjected,
  isOurs,
  webhooksOf,
  type RegisteredWebhook,
  type WebhookConfiguration,
} from '../kube/webhook-configuration.ts';
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

/** Where API servers would refuse what is served, one phrase for each webhook of ours; empty if nowhere. */
export function findTrustProblems({ pair, configurations, service, now }: ServedTrust): string[] {
  // Most webhooks trust the same.
  const known = new Map<string, string | undefined>();
  const problemOf = ({ caBundle, host = '' }: RegisteredWebhook): string | undefined => {
    const key = `${host} ${caBundle}`;
    const authorities = pemOf(caBundle);
    if (!known.has(key)) known.set(key, trustProblem({ chain: pair.cert, authorities, host, now }));
    return known.get(key);
  };
  return configurations.filter(isOurs).flatMap((configuration) =>
    webhooksOf(configuration)
      .filter((webhook) => isServedHere(webhook, service))
      .flatMap((webhook) => {
        if (webhook.caBundle === '')
          return isInjected(configuration) ? [`${webhook.name}: caBundle is still empty`] : [];
        const problem = problemOf(webhook);
        return problem === undefined ? [] : [`${webhook.name}: ${problem}`];
      }),
  );
}

/** Behind a URL may be anybody, but a configuration of ours means us. */
function isServedHere({ service, host }: RegisteredWebhook, ours: Service): boolean {
  return service ? service.namespace === ours.namespace && service.name === ours.name : host !== undefined;
}
