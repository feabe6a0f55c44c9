import type { JsonObject } from '../../../../src/kube/types.ts';
import { checkStrategies, type StrategyCase } from './check.ts';

const NAMESPACE = { path: 'namespace', fieldRef: { apiVersion: 'v1', fieldPath: 'metadata.namespace' } };
const INJECTED = [
  { serviceAccountToken: { path: 'token', expirationSeconds: 3607 } },
  { configMap: { name: 'kube-root-ca.crt', items: [{ key: 'ca.crt', path: 'ca.crt' }] } },
  { downwardAPI: { items: [NAMESPACE] } },
];

function volumes(...list: JsonObject[]): { readonly spec: JsonObject } {
  return { spec: { volumes: list } };
}

function projected(...sources: unknown[]): { readonly spec: JsonObject } {
  return volumes({ name: 'v', projected: { sources } });
}

const notProjected = {
  errors: ['provider some: .spec.volumes[0]: Invalid value: "projected": projected volumes are not allowed to be used'],
};

const likeInjected: StrategyCase[] = [{ audience: 'vault', path: 'token' }, { path: 'other' }].map(
  (serviceAccountToken) => ({
    name: `not injected: a token with ${JSON.stringify(serviceAccountToken)}`,
    scc: { volumes: ['secret'] },
    ...projected({ serviceAccountToken }),
    expected: notProjected,
  }),
);

checkStrategies([
  { name: 'a listed type', scc: { volumes: ['nfs'] }, ...volumes({ name: 'v', nfs: {} }), expected: {} },
  { name: 'every type', scc: { volumes: ['*'] }, ...volumes({ name: 'v', hostPath: {} }), expected: {} },
  {
    name: 'types that are not listed, each with its place',
    scc: { volumes: ['cephFS', 'none'] },
    ...volumes({ name: 'a', cephfs: {} }, { name: 'b', hostPath: {} }, { name: 'c', vsphereVolume: {} }),
    expected: {
      errors: [
        'provider some: .spec.volumes[1]: Invalid value: "hostPath": hostPath volumes are not allowed to be used',
        'provider some: .spec.volumes[2]: Invalid value: "vsphere": vsphere volumes are not allowed to be used',
      ],
    },
  },
  {
    name: 'of several sources the most dangerous counts',
    scc: { volumes: ['secret', 'emptyDir'] },
    ...volumes({ name: 'v', secret: {}, hostPath: {}, emptyDir: {} }),
    expected: {
      errors: [
        'provider some: .spec.volumes[0]: Invalid value: "hostPath": hostPath volumes are not allowed to be used',
      ],
    },
  },
  {
    name: 'a source that is not known',
    scc: { volumes: ['secret'] },
    ...volumes({ name: 'v', hologram: {} }),
    expected: {
      errors: [
        'provider some: .spec.volumes[0]: Invalid value: "": unknown volume type for volume: {"name":"v","hologram":{}}',
      ],
    },
  },
  {
    name: 'what is injected for the service account',
    scc: { volumes: ['secret'] },
    ...projected(...INJECTED),
    expected: {},
  },
  { name: 'not without secrets', scc: { volumes: ['configMap'] }, ...projected(...INJECTED), expected: notProjected },
  {
    name: 'nor with others beside it',
    scc: { volumes: ['secret'] },
    ...projected(...INJECTED, { secret: {} }),
    expected: notProjected,
  },
  ...likeInjected,
  {
    name: 'flex volumes of every driver',
    scc: { volumes: ['flexVolume'] },
    ...volumes({ name: 'v', flexVolume: { driver: 'example/a' } }),
    expected: {},
  },
  {
    name: 'flex volumes of listed drivers only',
    scc: { volumes: ['*'], allowedFlexVolumes: [{ driver: 'example/a' }] },
    ...volumes({ name: 'v', flexVolume: { driver: 'example/b' } }),
    expected: {
      errors: [
        'provider some: .spec.volumes[0].flexVolume.driver: Invalid value: "example/b": Flexvolume driver is not allowed to be used',
      ],
    },
  },
]);
