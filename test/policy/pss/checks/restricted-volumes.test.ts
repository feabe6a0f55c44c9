import { restrictedVolumes } from '../../../../src/policy/pss/checks/restricted-volumes.ts';
import { testCheck } from '../cases.ts';

testCheck(restrictedVolumes, [
  { name: 'no volumes', given: '{ spec: { containers: [{ name: a }] } }', expected: '' },
  {
    name: 'the allowed sources',
    given: `
      spec:
        volumes:
          - { name: a, configMap: {} }
          - { name: b, csi: {} }
          - { name: c, downwardAPI: {} }
          - { name: d, emptyDir: {} }
          - { name: e, ephemeral: {} }
          - { name: f, image: {} }
          - { name: g, persistentVolumeClaim: {} }
          - { name: h, projected: {} }
          - { name: i, secret: {} }`,
    expected: '',
  },
  {
    name: 'an allowed and a restricted source',
    given: '{ spec: { volumes: [{ name: v, hostPath: { path: / }, emptyDir: {} }] } }',
    expected: '',
  },
  {
    name: 'one volume',
    given: '{ spec: { volumes: [{ name: a, emptyDir: {} }, { name: v, nfs: {} }] } }',
    expected: 'restricted volume types (volume "v" uses restricted volume type "nfs")',
    fields: ['FieldValueForbidden spec.volumes[1].nfs undefined'],
  },
  {
    name: 'two volumes of one type',
    given: '{ spec: { volumes: [{ name: b, nfs: {} }, { name: a, nfs: {} }] } }',
    expected: 'restricted volume types (volumes "b", "a" use restricted volume type "nfs")',
  },
  {
    name: 'types are distinct and sorted; several sources are named by the first in a fixed order',
    given: `
      spec:
        volumes:
          - { name: a, storageos: {}, gitRepo: {} }
          - { name: b, rbd: {} }
          - { name: c, nfs: {}, hostPath: { path: / } }
          - { name: d, rbd: {} }`,
    expected:
      'restricted volume types (volumes "a", "b", "c", "d" use restricted volume types "gitRepo", "hostPath", "rbd")',
    fields: [
      'FieldValueForbidden spec.volumes[0].gitRepo undefined',
      'FieldValueForbidden spec.volumes[1].rbd undefined',
      'FieldValueForbidden spec.volumes[2].hostPath undefined',
      'FieldValueForbidden spec.volumes[3].rbd undefined',
    ],
  },
  {
    name: 'no source, null, and an unknown source',
    given: '{ spec: { volumes: [{ name: a }, null, { name: c, emptyDir: null }, { name: d, tomorrow: {} }] } }',
    expected: 'restricted volume types (volumes "a", "", "c", "d" use restricted volume type "unknown")',
    fields: [
      'FieldValueForbidden spec.volumes[0] undefined',
      'FieldValueForbidden spec.volumes[1] undefined',
      'FieldValueForbidden spec.volumes[2] undefined',
      'FieldValueForbidden spec.volumes[3] undefined',
    ],
  },
]);
