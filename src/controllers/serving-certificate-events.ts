import { apiVersionOf } from '../kube/resources.ts';
import type { Secret } from '../kube/types.ts';
import type { CertificateMetrics } from '../telemetry/certificates.ts';
import { readCertificates } from '../tls/pem.ts';
import type { KeyringPlan, Step } from '../tls/plan-keyring.ts';
import type { ReconcileContext } from './controller.ts';
import { textsOf } from './serving-certificate-state.ts';

/** What a step makes, and what people are told of it. */
const STEPS: Readonly<
  Record<
    Step,
    { readonly made: readonly ('authority' | 'serving')[]; readonly reason: string; readonly message: string }
  >
> = {
  'start over': {
    made: ['authority', 'serving'],
    reason: 'AuthorityCreated',
    message: 'made an authority and a serving certificate',
  },
  sign: { made: ['serving'], reason: 'ServingCertificateRenewed', message: 'signed a serving certificate' },
  prepare: {
    made: ['authority'],
    reason: 'AuthorityPrepared',
    message: 'made the next authority, which signs once it is trusted everywhere',
  },
  change: {
    made: ['serving'],
    reason: 'AuthorityChanged',
    message: 'signed a serving certificate with the next authority',
  },
};

/** Tells of a step that was taken. */
export function tellStep(
  { step, reason: why }: KeyringPlan,
  secret: Secret,
  metrics: Pick<CertificateMetrics, 'issued'>,
  { logger, tell }: ReconcileContext,
): void {
  const name = secret.metadata?.name;
  if (step === undefined) {
    logger.info({ secret: name }, 'Secret of the certificates set right');
    return;
  }
  const { made, reason, message } = STEPS[step];
  for (const certificate of made) metrics.issued.cell({ certificate }).count++;
  const [serving] = readCertificates(textsOf(secret).get('tls.crt') ?? '');
  logger.info({ secret: name, reason: why, notAfter: serving?.validToDate.toISOString() }, message);
  tell(noteOn(secret, reason, `${message}: ${why}`));
}

/** Tells that API servers trust so many certificates no more that they trusted before. */
export function tellRetired(count: number, secret: Secret | undefined, { tell }: ReconcileContext): void {
  if (!secret) return;
  const what = count === 1 ? 'an authority' : `${count} authorities`;
  tell(
    noteOn(secret, 'AuthorityRetired', `took ${what} out of caBundle: nobody serves what it signed, or it has expired`),
  );
}

function noteOn({ metadata }: Secret, reason: string, note: string): Parameters<ReconcileContext['tell']>[0] {
  const { name = '', namespace = '', uid } = metadata ?? {};
  return {
    regarding: {
      apiVersion: apiVersionOf('Secret'),
      kind: 'Secret',
      metadata: { name, namespace, ...(uid === undefined ? {} : { uid }) },
    },
    type: 'Normal',
    reason,
    action: 'Rotate',
    note,
  };
}
