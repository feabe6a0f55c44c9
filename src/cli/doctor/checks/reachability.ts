import { isOff } from '../../../install/index.ts';
import { summarizeNames } from '../../../kube/text.ts';
import { printPage } from '../../command.ts';
import {
  type DoctorCheck,
  type CheckResult,
  type Facts,
  type Fix,
  info,
  ok,
  type Probe,
  problem,
  unknown,
} from '../facts.ts';
import { applyManifests, replicaLogs, commandFix } from '../fix.ts';
import { failsClosed, isCalled, ownWebhooks } from '../matching.ts';

const FAILED = /failed calling webhook "([^"]+)": (.*)/s;
const DENIED = /admission webhook "([^"]+)" denied the request/;

/** Checks that API servers reach the webhooks. */
export const reachability: DoctorCheck = {
  name: 'reachability',
  evaluate(facts) {
    const probes = reviewProbes(facts);
    const failures = probes.flatMap((probe) => evaluateFailure(probe, facts));
    const responding = respondingWebhooks(facts);
    const failed = new Set(failures.map(({ object }) => object));
    return [
      ...failures,
      ...[...responding].filter((name) => !failed.has(name)).map((name) => ok(name, 'responds')),
      ...probes.flatMap(evaluateRejection),
      ...untested(facts, new Set([...responding, ...failed])),
    ];
  },
};

/** Returns the probes that test webhooks, which excludes the probe for the PodSecurity plugin. */
function reviewProbes({ probes }: Facts): readonly Probe[] {
  return probes.filter(({ id }) => id !== 'a violating pod');
}

/** Returns the names of the Portcullis webhooks that responded to a dry run. */
export function respondingWebhooks(facts: Facts): ReadonlySet<string> {
  return new Set(reviewProbes(facts).flatMap((probe) => findResponding(probe, facts)));
}

function subject({ id, namespace }: Probe): string {
  return namespace ? `${id} in ${namespace.name}` : id;
}

function isOwnWebhook({ webhookConfigurations }: Facts, name: string): boolean {
  return ownWebhooks(webhookConfigurations).some(({ webhook }) => webhook.name === name);
}

function evaluateFailure(probe: Probe, facts: Facts): readonly CheckResult[] {
  const [, name = '', error = ''] = FAILED.exec(probe.rejection ?? '') ?? [];
  if (name === '') return [];
  const message = `the call for ${subject(probe)} failed: ${error}`;
  if (!isOwnWebhook(facts, name)) {
    const impact = `this webhook does not belong to Portcullis, and prevents the creation of ${subject(probe)}`;
    const fix = commandFix('kubectl', 'get', 'validatingwebhookconfigurations,mutatingwebhookconfigurations');
    return [problem(name, message, { impact, fix })];
  }
  const impact = 'matching requests are denied in fail-closed namespaces, and are admitted without a review elsewhere';
  const isMissing = /service "[^"]*" not found/.test(error);
  return [problem(name, message, { impact, fix: isMissing ? applyManifests(facts, 'missing') : findCause(facts) })];
}

function findCause(facts: Facts): Fix {
  const { commands, note = 'the page lists the causes of errors' } = replicaLogs(facts);
  return { commands, note: `${note}: ${printPage('how-to/runbook.md#symptoms')}` };
}

/**
 * Returns the webhooks that responded to a dry run. A webhook responded if it denied the request, or if it fails closed
 * and the request was admitted.
 */
function findResponding(
  { object, rejection, namespace, group, resource, body }: Probe,
  facts: Facts,
): readonly string[] {
  const [, denier] = DENIED.exec(rejection ?? '') ?? [];
  if (denier !== undefined) return isOwnWebhook(facts, denier) ? [denier] : [];
  if (!object) return [];
  const { metadata } = body as { readonly metadata?: { readonly labels?: Readonly<Record<string, string>> } };
  const labels = metadata?.labels ?? {};
  const request = { operation: 'CREATE', group, resource, namespace, labels } as const;
  return ownWebhooks(facts.webhookConfigurations)
    .filter(({ webhook }) => failsClosed(webhook) && isCalled(webhook, request))
    .map(({ webhook }) => webhook.name);
}

/** Reports a probe that the API server rejected before calling webhooks. */
function evaluateRejection(probe: Probe): readonly CheckResult[] {
  const { rejection } = probe;
  if (rejection === undefined || FAILED.test(rejection) || DENIED.test(rejection)) return [];
  return [unknown(subject(probe), `the dry run failed: ${rejection}`)];
}

function untested(facts: Facts, tested: ReadonlySet<string>): readonly CheckResult[] {
  const webhooks = ownWebhooks(facts.webhookConfigurations)
    .map(({ webhook }) => webhook)
    .filter(({ name }) => !tested.has(name));
  const report = (areOff: boolean, reason: string): readonly CheckResult[] => {
    const names = webhooks.filter((webhook) => isOff(webhook) === areOff).map(({ name }) => name);
    return names.length === 0 ? [] : [info(summarizeNames(names, 3), `not tested: ${reason}`)];
  };
  return [...report(true, 'break-glass is on'), ...report(false, 'no dry run of this command exercises them')];
}
