import type { X509Certificate } from 'node:crypto';
import { getWebhooks, hasCaInjection, isInstalled } from '../../../kube/webhooks.ts';
import { readCertificates } from '../../../tls/certificate-pair.ts';
import { trustProblem } from '../../../tls/trust.ts';
import {
  evaluateFact,
  FIXES,
  formatNames,
  ok,
  problem,
  warning,
  type Check,
  type CheckResult,
  type Fact,
  type Facts,
  type ServedCertificate,
} from '../facts.ts';
import { ownWebhooks, type RegisteredWebhook } from '../matching.ts';

const DAY_MS = 24 * 60 * 60 * 1000;

/** True if a certificate should have been renewed: in the last sixth of its lifetime, at most in the last 30 days. */
function isOverdue({ validFromDate, validToDate }: X509Certificate, now: Date): boolean {
  const lifetimeMs = validToDate.getTime() - validFromDate.getTime();
  return validToDate.getTime() - now.getTime() < Math.min(lifetimeMs / 6, 30 * DAY_MS);
}

/** API servers trust the serving certificate, and it is valid for some time. */
export const certificates: Check = {
  name: 'certificates',
  evaluate: (facts) => [
    ...evaluateFact(facts.certificate, 'serving certificate', (certificate) => evaluateServed(certificate, facts)),
    ...evaluateBundles(facts),
  ],
};

function evaluateServed({ source, chain }: ServedCertificate, facts: Facts): readonly CheckResult[] {
  const { now, settings } = facts;
  const logs = FIXES.logs(facts);
  if (chain === undefined) {
    if (settings.webhooks !== 'service') return [];
    const impact = 'replicas serve a temporary certificate that no API server trusts';
    return [problem(source, 'has no serving certificate', { impact, fix: logs })];
  }
  const [leaf] = readCertificates(chain);
  if (!leaf) {
    return [
      problem(source, 'has no certificate in PEM format', {
        fix: settings.certificates === 'self-managed' ? logs : `# replace the certificate in ${source}`,
      }),
    ];
  }
  const expiry = leaf.validToDate.toISOString().replace(/\.\d+Z$/, 'Z');
  if (leaf.validToDate <= now) {
    const impact = 'API servers reject connections to replicas that serve it';
    return [problem(source, `the serving certificate expired at ${expiry}`, { impact, fix: logs })];
  }
  if (isOverdue(leaf, now)) {
    const impact = 'its renewal is overdue';
    return [warning(source, `the serving certificate expires at ${expiry}`, { impact, fix: logs })];
  }
  return [ok(source, `the serving certificate is valid until ${expiry}`)];
}

/** Each webhook trusts the certificate at its address. Webhooks with the same result are reported together. */
function evaluateBundles(facts: Facts): readonly CheckResult[] {
  const webhooks = ownWebhooks(facts.configurations);
  const results = webhooks.flatMap((registered) => evaluateBundle(registered, facts));
  if (results.length > 0) {
    const groups = Map.groupBy(results, ({ severity, message }) => `${severity} ${message}`);
    return [...groups.values()].flatMap((group) => {
      const [first] = group;
      return first ? [{ ...first, object: formatNames(group.map(({ object }) => object)) }] : [];
    });
  }
  const served = [facts.certificate, ...facts.urlCertificates.values()];
  const isServed = served.some((fact) => 'value' in fact && fact.value.chain);
  return isServed && webhooks.length > 0 ? [ok('caBundle', 'every webhook trusts the serving certificate')] : [];
}

function evaluateBundle({ configuration, webhook }: RegisteredWebhook, facts: Facts): readonly CheckResult[] {
  const [parsed] = getWebhooks({ webhooks: [webhook] });
  if (!parsed) return [];
  const { name, caBundle, host = '', failurePolicy } = parsed;
  const { url } = webhook.clientConfig;
  const authorities = Buffer.from(caBundle, 'base64').toString('latin1');
  const results = evaluateFact(servedAt(url, facts), name, ({ chain, source }): readonly CheckResult[] => {
    if (chain === undefined) return [];
    // Without a caBundle, API servers use their system roots, which is intended for URLs without CA injection.
    const isMissing = authorities === '' && (url == null || hasCaInjection(configuration));
    const mismatch = authorities === '' ? undefined : trustProblem({ chain, authorities, host, now: facts.now });
    if (!isMissing && mismatch === undefined) return [];
    if (!isInstalled(configuration.kind, configuration.name))
      return [unmanagedBundle(name, failurePolicy, configuration)];
    if (mismatch === undefined) return [missingBundle(name, configuration.name, facts)];
    const impact = 'API servers reject the connection, and the failure policy applies';
    return [problem(name, `${source}: ${mismatch}`, { impact, fix: FIXES.logs(facts) })];
  });
  const areOverdue = readCertificates(authorities).every((authority) => isOverdue(authority, facts.now));
  if (authorities === '' || !areOverdue || results.length > 0) return results;
  return [
    warning(name, 'all authorities in its caBundle expire soon', {
      impact: 'their renewal is overdue',
      fix: FIXES.logs(facts),
    }),
  ];
}

function servedAt(url: string | null | undefined, facts: Facts): Fact<ServedCertificate> {
  if (url == null) return facts.certificate;
  const origin = URL.parse(url)?.origin ?? url;
  return facts.urlCertificates.get(origin) ?? { unknown: `${origin}: not read` };
}

function missingBundle(object: string, configuration: string, { namespace }: Facts): CheckResult {
  return problem(object, `has no caBundle, in ${configuration}`, {
    impact: 'API servers do not trust the serving certificate',
    fix: `kubectl -n ${namespace} get lease portcullis # the leader sets the caBundle: check that there is a leader`,
  });
}

/** Replicas set the caBundle of installed configurations only, not of copies. */
function unmanagedBundle(
  object: string,
  failurePolicy: 'Fail' | 'Ignore',
  { kind, name }: RegisteredWebhook['configuration'],
): CheckResult {
  const isClosed = failurePolicy === 'Fail';
  const create = isClosed ? problem : warning;
  return create(
    object,
    `does not trust the serving certificate, in ${kind} ${name}, which is not part of the installation`,
    {
      impact: `no replica updates its caBundle: API servers ${isClosed ? 'deny' : 'admit'} matching requests without a review`,
      fix: `kubectl delete ${kind.toLowerCase()} ${name}`,
    },
  );
}
