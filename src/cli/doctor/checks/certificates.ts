import type { X509Certificate } from 'node:crypto';
import { getWebhooks, hasCaInjection, isKnownConfiguration } from '../../../api/webhooks.ts';
import { summarizeNames } from '../../../kube/text.ts';
import { DAY_MS } from '../../../kube/units.ts';
import { readCertificates, trustProblem } from '../../../tls/index.ts';
import {
  type DoctorCheck,
  type CheckResult,
  evaluateFact,
  type Fact,
  type Facts,
  ok,
  problem,
  type CheckedCertificate,
  warning,
} from '../facts.ts';
import { instruction, replicaLogs, commandFix } from '../fix.ts';
import { ownWebhooks, type ConfiguredWebhook } from '../matching.ts';

const OVERDUE = 'its renewal is overdue';

/**
 * Returns true if the renewal of a certificate is overdue. Renewal is overdue in the last sixth of the certificate's
 * lifetime, but at most 30 days before the certificate expires.
 */
function isOverdue({ validFromDate, validToDate }: X509Certificate, now: Date): boolean {
  const lifetimeMs = validToDate.getTime() - validFromDate.getTime();
  return validToDate.getTime() - now.getTime() < Math.min(lifetimeMs / 6, 30 * DAY_MS);
}

/** Checks that API servers trust the serving certificate and that it does not expire soon. */
export const certificates: DoctorCheck = {
  name: 'certificates',
  evaluate: (facts) => [
    ...evaluateFact(facts.certificate, 'serving certificate', (certificate) => evaluateServed(certificate, facts)),
    ...evaluateBundles(facts),
  ],
};

function evaluateServed({ source, chain }: CheckedCertificate, facts: Facts): readonly CheckResult[] {
  const { now, settings } = facts;
  const fix = replicaLogs(facts);
  if (chain === undefined) {
    if (settings.webhooks !== 'service') return [];
    const impact = 'replicas serve a temporary certificate that no API server trusts';
    return [problem(source, 'has no serving certificate', { impact, fix })];
  }
  const [leaf] = readCertificates(chain);
  if (!leaf) {
    const replace = instruction(`replace the certificate in ${source}`);
    return [
      problem(source, 'has no certificate in PEM format', {
        fix: settings.certificates === 'self-managed' ? fix : replace,
      }),
    ];
  }
  const expiry = leaf.validToDate.toISOString().replace(/\.\d+Z$/, 'Z');
  if (leaf.validToDate <= now) {
    const impact = 'API servers reject connections to replicas that serve it';
    return [problem(source, `the serving certificate expired at ${expiry}`, { impact, fix })];
  }
  return isOverdue(leaf, now)
    ? [warning(source, `the serving certificate expires at ${expiry}`, { impact: OVERDUE, fix })]
    : [ok(source, `the serving certificate is valid until ${expiry}`)];
}

/** Checks that each webhook trusts the certificate served at its address. Groups webhooks with the same result. */
function evaluateBundles(facts: Facts): readonly CheckResult[] {
  const webhooks = ownWebhooks(facts.webhookConfigurations);
  const results = webhooks.flatMap((registered) => evaluateBundle(registered, facts));
  if (results.length > 0) {
    const groups = Map.groupBy(results, ({ severity, message }) => `${severity} ${message}`);
    return [...groups.values()].flatMap((group) =>
      group.slice(0, 1).map((first) => ({
        ...first,
        object: summarizeNames(
          group.map(({ object }) => object),
          3,
        ),
      })),
    );
  }
  const served = [facts.certificate, ...facts.urlCertificates.values()];
  const isServed = served.some((fact) => 'value' in fact && fact.value.chain);
  return isServed && webhooks.length > 0 ? [ok('caBundle', 'every webhook trusts the serving certificate')] : [];
}

/** Checks a webhook's caBundle. Names the configuration if it is a copy, because replicas do not set its caBundle. */
function evaluateBundle({ configuration, webhook }: ConfiguredWebhook, facts: Facts): readonly CheckResult[] {
  const { kind, name: configurationName } = configuration;
  const [parsed] = getWebhooks({ webhooks: [webhook] });
  if (!parsed) return [];
  const { name, caBundle, host = '' } = parsed;
  const { url } = webhook.clientConfig;
  const authorities = Buffer.from(caBundle, 'base64').toString('latin1');
  const isCopy = !isKnownConfiguration(kind, configurationName);
  const suffix = isCopy ? `, in ${kind} ${configurationName}, which is not part of the installation` : '';
  const fix = isCopy ? commandFix('kubectl', 'delete', kind.toLowerCase(), configurationName) : replicaLogs(facts);
  const results = evaluateFact(servedAt(url, facts), name, ({ chain, source }): readonly CheckResult[] => {
    if (chain === undefined) return [];
    // Without a caBundle, API servers use the system roots. This is intended for URLs without CA injection.
    const isMissing = authorities === '' && (url == null || hasCaInjection(configuration));
    const mismatch = authorities === '' ? undefined : trustProblem({ chain, authorities, host, now: facts.now });
    if (!isMissing && mismatch === undefined) return [];
    const message = mismatch === undefined ? 'has no caBundle' : `${source}: ${mismatch}`;
    const impact = 'API servers reject the connection, and the failure policy applies';
    return [problem(name, `${message}${suffix}`, { impact, fix })];
  });
  const areOverdue = readCertificates(authorities).every((authority) => isOverdue(authority, facts.now));
  if (authorities === '' || !areOverdue || results.length > 0) return results;
  return [warning(name, 'all CAs in its caBundle expire soon', { impact: OVERDUE, fix: replicaLogs(facts) })];
}

function servedAt(url: string | null | undefined, facts: Facts): Fact<CheckedCertificate> {
  if (url == null) return facts.certificate;
  const origin = URL.parse(url)?.origin ?? url;
  return facts.urlCertificates.get(origin) ?? { unknown: `${origin}: not read` };
}
