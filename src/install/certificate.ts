import type { V1Volume, V1VolumeMount } from '@kubernetes/client-node';
import { INSTALLATION } from '../kube/well-known.ts';
import type { JsonObject, Wire } from '../kube/types.ts';
import { metadataIn } from './metadata.ts';
import type { ManifestSettings } from './settings.ts';
import type { CustomManifest } from './types.ts';

/**
 * The Secret with a serving certificate that others make, and the Certificate by which cert-manager does. The Secret
 * of the program itself is called otherwise: of neither the type could be changed.
 */
export const CERTIFICATE = 'portcullis-tls';

const FOLDER = '/etc/portcullis/serving-certificate';
const VOLUME = 'serving-certificate';
const SELF_SIGNED = 'portcullis-self-signed';
const AUTHORITY = 'portcullis-authority';
const CERT_MANAGER = { apiVersion: 'cert-manager.io/v1' } as const;

/** Where a certificate that others have made is found; one that the replicas make themselves is read from the API. */
export function certificateVolumes({ certificates }: ManifestSettings): readonly Wire<V1Volume>[] {
  return certificates === 'self-managed' ? [] : [{ name: VOLUME, secret: { secretName: CERTIFICATE } }];
}

export function certificateMounts({ certificates }: ManifestSettings): readonly Wire<V1VolumeMount>[] {
  return certificates === 'self-managed' ? [] : [{ name: VOLUME, mountPath: FOLDER, readOnly: true }];
}

export function certificateArguments({ certificates }: ManifestSettings): readonly string[] {
  if (certificates === 'self-managed') return [];
  return [`--tls-cert-file=${FOLDER}/tls.crt`, `--tls-private-key-file=${FOLDER}/tls.key`];
}

/** What cert-manager needs: an authority of our own, which signs the serving certificate. */
export function certManagerObjects({ namespace }: ManifestSettings): readonly CustomManifest[] {
  const service = `${INSTALLATION.name}.${namespace}`;
  return [
    issuer(namespace, SELF_SIGNED, { selfSigned: {} }),
    certificate(namespace, AUTHORITY, {
      isCA: true,
      commonName: AUTHORITY,
      duration: '43800h',
      privateKey: { algorithm: 'ECDSA', size: 256 },
      issuerRef: { kind: 'Issuer', name: SELF_SIGNED },
    }),
    issuer(namespace, AUTHORITY, { ca: { secretName: AUTHORITY } }),
    certificate(namespace, CERTIFICATE, {
      dnsNames: [service, `${service}.svc`, `${service}.svc.cluster.local`],
      duration: '2160h',
      renewBefore: '720h',
      usages: ['digital signature', 'key encipherment', 'server auth'],
      privateKey: { algorithm: 'ECDSA', size: 256, rotationPolicy: 'Always' },
      issuerRef: { kind: 'Issuer', name: AUTHORITY },
    }),
  ];
}

function issuer(namespace: string, name: string, spec: JsonObject): CustomManifest {
  return { ...CERT_MANAGER, kind: 'Issuer', metadata: metadataIn(namespace, name), spec };
}

function certificate(namespace: string, name: string, spec: JsonObject): CustomManifest {
  return {
    ...CERT_MANAGER,
    kind: 'Certificate',
    metadata: metadataIn(namespace, name),
    spec: { secretName: name, ...spec },
  };
}
