import type { X509Certificate } from 'node:crypto';
import { hasCaInjection, isInstalled, getWebhooks, type RegisteredWebhook } from '../../../kube/webhooks.ts';
import { readCertificates } from '../../../tls/pem.ts';
import { trustProblem } from '../../../tls/trust.ts';
import type { Configuration } from '../../installation.ts';
import { ownWebhooks } from '../matching.ts';
import { printNames, given, type Check, type Fact, type Facts, type Remark, type ServedCertificate } from '../facts.ts';

const DAY_MS = 24 * 60 * 60 * 1000;

/** Certificates are renewed long before the last sixth of their life, and at least a month before their end. */
function isLate({ validFromDate, validToDate }: X509Certificate, now: Date): boolean {
  const lifeMs = validToDate.getTime() - validFromDate.getTime();
  return validToDate.getTime() - now.getTime() < Math.min(lifeMs / 6, 30 * DAY_MS);
}

/** What API servers trust is what is served, now and for a while. */
export const certificates: Check = {
  name: 'certificates',
  judge: (facts) => [
    ...given(facts.certificate, 'serving certificate', (one) => judgeServed(one, facts)),
    ...judgeBundles(facts),
  ],
};

function judgeServed({ source, chain }: ServedCertificate, { now, namespace, settings }: Facts): readonly Remark[] {
  if (chain === undefined) {
    if (settings.webhooks !== 'service') return [];
    return [
      {
        severity: 'problem',
        where: source,
        what: 'holds no serving certificate',
        why: 'replicas serve one of their own that no API server trusts',
        fix: `kubectl -n ${namespace} logs -l app.kubernetes.io/name=portcullis --tail=50`,
      },
    ];
  }
  const [leaf] = readCertificates(chain);
  if (!leaf)
    return [
      {
        severity: 'problem',
        where: source,
        what: 'holds no PEM certificate',
        fix: `kubectl -n ${namespace} delete ${source.replace('/', ' ')}`,
      },
    ];
  return judgeExpiry(source, leaf, now, namespace);
}

function judgeExpiry(where: string, leaf: X509Certificate, now: Date, namespace: string): readonly Remark[] {
  const expiry = printDate(leaf.validToDate);
  const fix = `kubectl -n ${namespace} logs -l app.kubernetes.io/name=portcullis --tail=50`;
  if (leaf.validToDate <= now) {
    return [
      {
        severity: 'problem',
        where,
        what: `the serving certificate has expired at ${expiry}`,
        why: 'API servers do not talk to replicas that serve it',
        fix,
      },
    ];
  }
  if (isLate(leaf, now)) {
    return [
      {
        severity: 'warning',
        where,
        what: `the serving certificate expires at ${expiry}`,
        why: 'it should have been renewed by now',
        fix,
      },
    ];
  }
  return [{ severity: 'ok', where, what: `the serving certificate is good until ${expiry}` }];
}

/** Each webhook: does it trust what is served where it asks? Most have the same bundle. */
function judgeBundles(facts: Facts): readonly Remark[] {
  const remarks = ownWebhooks(facts.configurations).flatMap(({ configuration, webhook }) => {
    const [read] = getWebhooks({ webhooks: [webhook] });
    if (!read) return [];
    const fact = servedFor(webhook.clientConfig.url, facts);
    const { name, caBundle, host = '' } = read;
    const authorities = Buffer.from(caBundle, 'base64').toString('latin1');
    const expiring = readCertificates(authorities).every((one) => isLate(one, facts.now));
    const problems = given(fact, name, ({ chain, source }): readonly Remark[] => {
      if (chain === undefined) return [];
      // Without a bundle API servers trust whom they trust anyway; that is meant where nobody fills one in.
      const isMissing = webhook.clientConfig.url == null || hasCaInjection(configuration);
      const isEmpty = authorities === '' && isMissing;
      const problem = authorities === '' ? undefined : trustProblem({ chain, authorities, host, now: facts.now });
      if (!isEmpty && problem === undefined) return [];
      if (!isInstalled(configuration.kind, configuration.name)) return [strange(read, configuration)];
      if (problem === undefined) return [emptyBundle(name, configuration.name, facts)];
      return [mistrust(name, `${source}: ${problem}`, facts)];
    });
    const isEnding = authorities !== '' && expiring && problems.length === 0;
    return isEnding ? [endingBundle(name, facts)] : problems;
  });
  if (remarks.length > 0) return dedupe(remarks);
  const isServed = [facts.certificate, ...facts.atUrls.values()].some((fact) => 'value' in fact && fact.value.chain);
  if (!isServed || ownWebhooks(facts.configurations).length === 0) return [];
  return [{ severity: 'ok', where: 'caBundle', what: 'every webhook trusts what is served' }];
}

function servedFor(url: string | null | undefined, facts: Facts): Fact<ServedCertificate> {
  if (url == null) return facts.certificate;
  const origin = URL.parse(url)?.origin ?? url;
  return facts.atUrls.get(origin) ?? { unknown: `${origin}: not looked at` };
}

function emptyBundle(where: string, configuration: string, { namespace }: Facts): Remark {
  return {
    severity: 'problem',
    where,
    what: `has no caBundle, in ${configuration}`,
    why: 'API servers do not trust what the replicas serve',
    fix: `kubectl -n ${namespace} get lease portcullis # the leader fills it in; does anybody lead?`,
  };
}

/** Replicas look after the bundles of their own configurations only. */
function strange({ name, failurePolicy }: RegisteredWebhook, { kind, name: of }: Configuration): Remark {
  const isClosed = failurePolicy === 'Fail';
  return {
    severity: isClosed ? 'problem' : 'warning',
    where: name,
    what: `does not trust what is served, in ${kind} ${of}, which is not one of the installation`,
    why: `nobody keeps its caBundle right: API servers ${isClosed ? 'refuse what they should ask it about' : 'let through what they should ask it about'}`,
    fix: `kubectl delete ${kind.toLowerCase()} ${of}`,
  };
}

function mistrust(where: string, what: string, { namespace }: Facts): Remark {
  return {
    severity: 'problem',
    where,
    what,
    why: 'API servers refuse the connection, and failurePolicy decides',
    fix: `kubectl -n ${namespace} rollout restart deployment portcullis`,
  };
}

function endingBundle(where: string, { namespace }: Facts): Remark {
  return {
    severity: 'warning',
    where,
    what: 'all authorities in its caBundle expire soon',
    why: 'they should have been replaced by now',
    fix: `kubectl -n ${namespace} logs -l app.kubernetes.io/name=portcullis --tail=50`,
  };
}

/** What is the same for many is said once. */
function dedupe(remarks: readonly Remark[]): readonly Remark[] {
  const groups = Map.groupBy(remarks, ({ severity, what }) => `${severity} ${what}`);
  return [...groups.values()].flatMap((group) => {
    const [first] = group;
    return first ? [{ ...first, where: printNames(group.map(({ where }) => where)) }] : [];
  });
}

function printDate(date: Date): string {
  return date.toISOString().replace(/\.\d+Z$/, 'Z');
}
