import type { AdmissionRequest, Operation } from '../../src/kube/admission.ts';

export interface Review {
  readonly apiVersion: 'admission.k8s.io/v1';
  readonly kind: 'AdmissionReview';
  readonly request: AdmissionRequest;
}

/** Builds an AdmissionReview for the creation of a pod, as an API server sends it, with changed fields. */
export function podReview(change: {
  readonly uid?: string;
  readonly namespace?: string;
  readonly name?: string;
  readonly operation?: Operation;
  readonly spec?: Readonly<Record<string, unknown>>;
}): Review {
  const kind = { group: '', version: 'v1', kind: 'Pod' };
  const resource = { group: '', version: 'v1', resource: 'pods' };
  const { namespace = 'shop', name = 'web' } = change;
  return {
    apiVersion: 'admission.k8s.io/v1',
    kind: 'AdmissionReview',
    request: {
      uid: change.uid ?? '705ab4f5-6393-11e8-b7cc-42010a800002',
      kind,
      resource,
      requestKind: kind,
      requestResource: resource,
      name,
      namespace,
      operation: change.operation ?? 'CREATE',
      userInfo: { username: 'alice', groups: ['system:authenticated'] },
      object: {
        apiVersion: 'v1',
        kind: 'Pod',
        metadata: { name, namespace, labels: { app: 'web' } },
        spec: change.spec ?? { containers: [{ name: 'web', image: 'web:1' }] },
      },
      oldObject: null,
      dryRun: false,
      options: { kind: 'CreateOptions', apiVersion: 'meta.k8s.io/v1' },
    },
  };
}
