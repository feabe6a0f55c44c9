/** Tests defaults and validation of stored SCCs. */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { formatFieldError } from '../../../src/kube/field-error.ts';
import type { JsonObject } from '../../../src/kube/types.ts';
import { defaultScc } from '../../../src/policy/scc/object-defaults.ts';
import { validateSccObject } from '../../../src/policy/scc/object-validation.ts';
import { VOLUME_TYPES } from '../../../src/policy/scc/volume-types.ts';
import { laxScc } from '../../support/scc.ts';

suite('SCCs', () => {
  test('get every field that the schema requires', () => {
    assert.deepEqual(defaultScc({ metadata: { name: 'a' } }), {
      metadata: { name: 'a' },
      priority: null,
      allowPrivilegedContainer: false,
      defaultAddCapabilities: null,
      requiredDropCapabilities: null,
      allowedCapabilities: null,
      allowHostDirVolumePlugin: false,
      volumes: VOLUME_TYPES.filter((type) => type !== 'hostPath').sort(),
      allowHostNetwork: false,
      allowHostPorts: false,
      allowHostPID: false,
      allowHostIPC: false,
      allowPrivilegeEscalation: true,
      seLinuxContext: {},
      runAsUser: {},
      supplementalGroups: { type: 'RunAsAny' },
      fsGroup: { type: 'RunAsAny' },
      readOnlyRootFilesystem: false,
      users: [],
      groups: [],
    });
  });

  test('get sorted volumes without duplicates', () => {
    assert.deepEqual(defaultScc({ volumes: ['secret', 'nfs', 'secret', 'hostPath'] }).volumes, ['nfs', 'secret']);
  });

  test('lose optional fields that are empty, as in the encoding of OpenShift', () => {
    const empty = {
      allowedFlexVolumes: [],
      seccompProfiles: [],
      allowedUnsafeSysctls: [],
      forbiddenSysctls: [],
      userNamespaceLevel: '',
      defaultAllowPrivilegeEscalation: null,
      seLinuxContext: { type: '', seLinuxOptions: { level: '', user: 'u' } },
      runAsUser: { type: '', uid: null, uidRangeMin: null },
      supplementalGroups: { type: '', ranges: [] },
      fsGroup: { type: 'MustRunAs', ranges: [{ min: 0, max: 5 }, { min: 0, max: 0 }, { min: 1, max: 2 }, {}] },
    };
    assert.deepEqual(defaultScc(empty), {
      ...defaultScc({}),
      seLinuxContext: { seLinuxOptions: { user: 'u' } },
      fsGroup: { type: 'MustRunAs', ranges: [{ max: 5 }, {}, { min: 1, max: 2 }, {}] },
    });
    assert.deepEqual(defaultScc({ seLinuxContext: { seLinuxOptions: null } }), defaultScc({}));
  });

  test('keep empty values that OpenShift stores', () => {
    const kept = {
      defaultAddCapabilities: [],
      requiredDropCapabilities: [],
      allowedCapabilities: [],
      users: [],
      groups: [],
      defaultAllowPrivilegeEscalation: false,
      seLinuxContext: { seLinuxOptions: {} },
      runAsUser: { uid: 0, uidRangeMin: 0, uidRangeMax: 0 },
    };
    assert.deepEqual(defaultScc(kept), { ...defaultScc({}), ...kept });
  });

  test('keep fields that are set', () => {
    const scc = {
      priority: 3,
      allowPrivilegeEscalation: false,
      fsGroup: { type: 'MustRunAs' },
      users: ['a'],
      other: 1,
    };
    const defaulted = defaultScc(scc) as JsonObject;
    for (const [field, value] of Object.entries(scc)) assert.deepEqual(defaulted[field], value);
  });

  test('keep unknown fields that are empty', () => {
    const unknown = { a: '', b: null, c: [], d: false, min: 0, uid: null };
    const scc = {
      ...unknown,
      kind: '',
      metadata: null,
      seLinuxContext: { ...unknown, seLinuxOptions: unknown },
      runAsUser: { ...unknown, uid: 0 },
      fsGroup: { ...unknown, type: 'MustRunAs', ranges: [{ ...unknown, min: 1 }] },
      allowedFlexVolumes: [{ ...unknown, driver: '' }],
    } as never;
    assert.deepEqual(defaultScc(scc), { ...defaultScc({}), ...(scc as object) });
  });

  test('do not change if a field has the wrong type', () => {
    const scc = { volumes: 'all' } as never;
    assert.equal(defaultScc(scc), scc);
  });
});

/** Tests SCCs that the recorded cases do not contain. */
suite('validateSccObject returns', () => {
  const cases: readonly (readonly [name: string, fields: JsonObject, errors: readonly string[]])[] = [
    ['no error for a valid SCC', {}, []],
    ['an error for an invalid name', { name: 'A b' }, []],
    [
      'an error in runAsUser',
      { runAsUser: { type: 'MustRunAs', uid: -1 } },
      ['runAsUser.uid: Invalid value: -1: uid cannot be negative'],
    ],
    [
      'capabilities',
      {
        defaultAddCapabilities: ['A', 'B'],
        allowedCapabilities: ['*', 'B'],
        requiredDropCapabilities: ['A', 'B', '<'],
      },
      [
        'defaultAddCapabilities: Invalid value: "A": capability is listed in defaultAddCapabilities and requiredDropCapabilities',
        'defaultAddCapabilities: Invalid value: "B": capability is listed in defaultAddCapabilities and requiredDropCapabilities',
        'allowedCapabilities: Invalid value: "B": capability is listed in allowedCapabilities and requiredDropCapabilities',
        'requiredDropCapabilities: Invalid value: ["A","B","\\u003c"]: required capabilities must be empty when all capabilities are allowed by a wildcard',
      ],
    ],
    [
      'sysctls',
      { allowedUnsafeSysctls: ['', 'a.*.b', 'net/*', '*'], forbiddenSysctls: ['x'.repeat(254)] },
      [
        'allowedUnsafeSysctls[0]: Invalid value: "": empty sysctl not allowed',
        ...['a.*.b', 'net/*'].map(
          (pattern, index) =>
            `allowedUnsafeSysctls[${index + 1}]: Invalid value: "${pattern}": must have at most 253 characters and match regex ([a-z0-9]([-_a-z0-9]*[a-z0-9])?\\.)*([a-z0-9][-_a-z0-9]*)?[a-z0-9*]`,
        ),
        "allowedUnsafeSysctls.items: Forbidden: if '*' is present, must not specify other sysctls",
        `forbiddenSysctls[0]: Invalid value: "${'x'.repeat(254)}": must have at most 253 characters and match regex ([a-z0-9]([-_a-z0-9]*[a-z0-9])?\\.)*([a-z0-9][-_a-z0-9]*)?[a-z0-9*]`,
        `forbiddenSysctls[0]: Invalid value: "${'x'.repeat(254)}": sysctl overlaps with *`,
      ],
    ],
    [
      'errors for sysctls that are both allowed and forbidden',
      { allowedUnsafeSysctls: ['a.b', 'c.*', 'd.e.*'], forbiddenSysctls: ['a.*', 'c.d', 'd.*', 'a.b'] },
      [
        'allowedUnsafeSysctls[0]: Invalid value: "a.b": sysctl overlaps with a.*',
        'allowedUnsafeSysctls[0]: Invalid value: "a.b": sysctl overlaps with a.b',
        'forbiddenSysctls[1]: Invalid value: "c.d": sysctl overlaps with c.*',
        'allowedUnsafeSysctls[2]: Invalid value: "d.e.*": sysctl overlaps with d.*',
      ],
    ],
    [
      'errors for volumes and drivers of flex volumes',
      { volumes: ['none', 'secret'], allowedFlexVolumes: [{ driver: 'a' }] },
      [
        `volumes: Invalid value: ["none","secret"]: if 'none' is specified, no other values are allowed`,
        `allowedFlexVolumes: Invalid value: [{"driver":"a"}]: volumes does not include 'flexVolume' or '*', so no flex volumes are allowed`,
      ],
    ],
    [
      'an error for a value of the wrong type',
      { volumes: ['secret', 7] },
      ['volumes[1]: Invalid value: 7: must be a string'],
    ],
  ];
  for (const [name, fields, errors] of cases) {
    test(name, () => {
      const found = validateSccObject(laxScc({ name: 'a', ...fields })).map(formatFieldError);
      if (name === 'an error for an invalid name')
        assert.match(found.join(), /^metadata\.name: Invalid value: "A b": a lowercase RFC 1123 subdomain/);
      else assert.deepEqual(found, errors);
    });
  }

  test('an error for a missing name', () => {
    const scc = laxScc({});
    assert.deepEqual(validateSccObject({ ...scc, metadata: {} }).map(formatFieldError), [
      'metadata.name: Required value: name or generateName is required',
    ]);
    assert.deepEqual(validateSccObject({ ...scc, metadata: { generateName: 'a-' } }), []);
  });
});
