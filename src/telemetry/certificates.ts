import { Gauge, type Registry } from 'prom-client';
import { createTally, type Tally } from './hot.ts';

/** What is known of certificates and of those who trust them. */
export interface CertificateMetrics {
  /** Of the serving certificate, in Unix seconds. */
  readonly servingExpiry: Gauge;
  /** Of each authority that API servers trust, in Unix seconds. */
  readonly authorityExpiry: Gauge<'fingerprint'>;
  /** 1 if API servers take what is served, as far as this replica knows. */
  readonly trusted: Gauge;
  /** How many webhooks would refuse it that do not count for that. */
  readonly distrusting: Gauge;
  /** What this process has made as leader: `authority` or `serving`. */
  readonly issued: Tally<'certificate'>;
  /** How often another serving certificate was taken into use. */
  readonly reloads: Tally<never>;
}

export function createCertificateMetrics(registers: readonly Registry[]): CertificateMetrics {
  return {
    servingExpiry: new Gauge({
      name: 'portcullis_serving_certificate_expiry_timestamp_seconds',
      help: 'When the serving certificate expires, in Unix seconds.',
      registers: [...registers],
    }),
    authorityExpiry: new Gauge({
      name: 'portcullis_ca_expiry_timestamp_seconds',
      help: 'When each authority in the caBundle of our webhook configurations expires, in Unix seconds, by the beginning of its SHA-256.',
      labelNames: ['fingerprint'],
      registers: [...registers],
    }),
    trusted: new Gauge({
      name: 'portcullis_serving_certificate_trusted',
      help: '1 if the serving certificate chains to the caBundle of each webhook of the installation that fails closed; while it is 0 the replica is not ready.',
      registers: [...registers],
    }),
    distrusting: new Gauge({
      name: 'portcullis_serving_certificate_distrusting_webhooks',
      help: 'Webhooks whose caBundle does not fit the serving certificate, without making the replica unready: those of the installation that fail open, and all in other configurations with our label, such as copies.',
      registers: [...registers],
    }),
    issued: createTally({
      name: 'portcullis_certificates_issued_total',
      help: 'Certificates made for the Secret of the installation: authority or serving.',
      labelNames: ['certificate'],
      registers,
    }),
    reloads: createTally({
      name: 'portcullis_serving_certificate_reloads_total',
      help: 'How often another serving certificate was taken into use.',
      labelNames: [],
      registers,
    }),
  };
}
