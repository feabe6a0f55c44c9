import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import {
  decodeBody,
  loadSchemas,
  typeOfCrdSchema,
  type FieldValidation,
} from '../../../src/dev-cluster/fields/index.ts';
import { ApiError } from '../../../src/kube/status.ts';
import type { GroupVersionKind } from '../../../src/kube/types.ts';

const schemas = loadSchemas();
const POD = { group: '', version: 'v1', kind: 'Pod' };
const DEPLOYMENT = { group: 'apps', version: 'v1', kind: 'Deployment' };
const LEASE = { group: 'coordination.k8s.io', version: 'v1', kind: 'Lease' };

interface Options {
  readonly kind?: GroupVersionKind;
  readonly contentType?: string;
  readonly fieldValidation?: FieldValidation;
}

function decode(
  text: string,
  { kind = POD, contentType = 'application/json', fieldValidation = 'Warn' }: Options = {},
) {
  const type = schemas.typeOf(kind);
  assert.ok(type);
  return decodeBody({ text, contentType, type, kind, fieldValidation });
}

function pod(spec: string): string {
  return `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p"},"spec":${spec}}`;
}

function refusal(act: () => unknown): string {
  try {
    act();
  } catch (error) {
    assert.ok(error instanceof ApiError);
    assert.equal(error.status.code, 400);
    assert.equal(error.status.reason, 'BadRequest');
    return error.status.message;
  }
  return assert.fail('nothing was thrown');
}

suite('what is kept of a body', () => {
  const cases: [name: string, spec: string, expected: unknown][] = [
    ['lists that are always written', '{}', { containers: null }],
    [
      'empty values that Go does not write',
      '{"containers":[],"hostNetwork":false,"nodeName":"","volumes":[]}',
      { containers: [] },
    ],
    [
      'empty values behind pointers',
      '{"containers":[],"hostUsers":false,"priority":0}',
      { containers: [], priority: 0, hostUsers: false },
    ],
    ['empty objects', '{"containers":[],"securityContext":{}}', { containers: [], securityContext: {} }],
    ['no nulls', '{"containers":[],"securityContext":null,"tolerations":null}', { containers: [] }],
    [
      'structs that are always written',
      '{"containers":[{"name":"c"}]}',
      { containers: [{ name: 'c', resources: {} }] },
    ],
    [
      'odd but legal keys of maps',
      '{"containers":[],"nodeSelector":{"constructor":"a"}}',
      { containers: [], nodeSelector: { constructor: 'a' } },
    ],
    ['quantities as text', '{"containers":[],"overhead":{"cpu":1}}', { containers: [], overhead: { cpu: '1' } }],
  ];
  for (const [name, spec, expected] of cases) {
    test(name, () => {
      assert.deepEqual(decode(pod(spec)).object['spec'], expected);
    });
  }

  test('a key __proto__ stays a key', () => {
    const { object } = decode(pod('{"containers":[],"nodeSelector":{"__proto__":"x"}}'));
    assert.equal(JSON.stringify(object['spec']), '{"containers":[],"nodeSelector":{"__proto__":"x"}}');
  });

  test('fields come in the order of the API, maps sorted', () => {
    const { object } = decode('{"spec":{},"metadata":{"labels":{"b":"1","a":"2"},"name":"p"},"apiVersion":"v1"}');
    assert.equal(
      JSON.stringify(object),
      '{"kind":"Pod","apiVersion":"v1","metadata":{"name":"p","labels":{"a":"2","b":"1"}},"spec":{"containers":null},"status":{}}',
    );
  });

  test('kind and version default to what the URL says', () => {
    const { object } = decode('{}', { kind: DEPLOYMENT });
    assert.deepEqual([object.apiVersion, object.kind], ['apps/v1', 'Deployment']);
  });

  test('times are kept in UTC', () => {
    const { object } = decode('{"metadata":{"creationTimestamp":"2024-01-01T01:02:03.9+01:00"}}');
    assert.deepEqual(object.metadata, { creationTimestamp: '2024-01-01T00:02:03Z' });
  });

  test('YAML is read as JSON is', () => {
    const { object } = decode('kind: Pod\napiVersion: v1\nspec:\n  hostPID: yes\n  containers: []\n', {
      contentType: 'application/yaml; charset=utf-8',
    });
    assert.deepEqual(object['spec'], { hostPID: true, containers: [] });
  });
});

suite('warnings and strict errors', () => {
  const cases: [name: string, text: string, expected: string[]][] = [
    ['an unknown field', pod('{"containers":[],"bogus":1}'), ['unknown field "spec.bogus"']],
    ['a field in the wrong case', pod('{"containers":[],"HostNetwork":true}'), ['unknown field "spec.HostNetwork"']],
    [
      'unknown fields in lists',
      pod('{"containers":[{"name":"a"},{"name":"b","x":1,"env":[{"y":2}]}]}'),
      ['unknown field "spec.containers[1].x"', 'unknown field "spec.containers[1].env[0].y"'],
    ],
    ['a duplicate field', pod('{"containers":[],"hostIPC":true,"hostIPC":false}'), ['duplicate field "spec.hostIPC"']],
    ['a duplicate key of a map', '{"metadata":{"labels":{"a":"1","a":"2"}}}', ['duplicate field "metadata.labels.a"']],
    [
      'a duplicate within an unknown field',
      pod('{"containers":[],"bogus":{"a":1,"a":2}}'),
      ['unknown field "spec.bogus"'],
    ],
    ['nothing', pod('{"containers":[]}'), []],
  ];
  for (const [name, text, expected] of cases) {
    test(name, () => {
      assert.deepEqual(decode(text).warnings, expected);
      assert.deepEqual(decode(text, { fieldValidation: 'Ignore' }).warnings, []);
      if (expected.length === 0) assert.deepEqual(decode(text, { fieldValidation: 'Strict' }).warnings, []);
      else {
        const message = refusal(() => decode(text, { fieldValidation: 'Strict' }));
        assert.equal(
          message,
          `Pod in version "v1" cannot be handled as a Pod: strict decoding error: ${expected.join(', ')}`,
        );
      }
    });
  }

  test('no more than a hundred', () => {
    const fields = Array.from({ length: 150 }, (_, index) => `"x${index}":1`).join(',');
    assert.equal(decode(pod(`{${fields}}`)).warnings.length, 100);
  });

  test('a key that comes twice in YAML', () => {
    const options = { contentType: 'application/yaml' } as const;
    assert.deepEqual(decode('kind: Pod\nkind: Pod\n', options).warnings, [
      'yaml: unmarshal errors:\n  line 2: key "kind" already set in map',
    ]);
  });
});

suite('bodies that are refused', () => {
  const handled = 'Pod in version "v1" cannot be handled as a Pod: ';
  const unrecognized = 'the object provided is unrecognized (must be of type Pod): ';
  const noKind = "couldn't get version/kind; json parse error: ";
  const cases: [name: string, text: string, message: string, options?: Options][] = [
    ['cut off', '{', `${unrecognized}${noKind}unexpected end of JSON input ({)`],
    ['empty', '', `${unrecognized}${noKind}unexpected end of JSON input (<empty>)`],
    [
      'no JSON',
      'kind: Pod',
      `${unrecognized}${noKind}invalid character 'k' looking for beginning of value (6b696e643a20506f64)`,
    ],
    [
      'long and broken',
      '{"metadata":{"name":"abcdefghijklmnopqrstuvwxyz"},}',
      `${unrecognized}${noKind}invalid character '}' looking for beginning of object key string ({"metadata":{"name":"abcdefghi ...)`,
    ],
    [
      'a list',
      '[]',
      `${unrecognized}${noKind}json: cannot unmarshal array into Go value of type struct { APIVersion string "json:\\"apiVersion,omitempty\\""; Kind string "json:\\"kind,omitempty\\"" } (5b5d)`,
    ],
    [
      'a kind of the wrong type',
      '{"kind":1}',
      `${unrecognized}${noKind}json: cannot unmarshal number into Go struct field .kind of type string ({"kind":1})`,
    ],
    [
      'too many slashes',
      '{"apiVersion":"a/b/c"}',
      `${unrecognized}unexpected GroupVersion string: a/b/c ({"apiVersion":"a/b/c"})`,
    ],
    [
      'another kind',
      '{"apiVersion":"v1","kind":"ConfigMap"}',
      'ConfigMap in version "v1" cannot be handled as a Pod: converting (v1.ConfigMap) to (core.Pod): unknown conversion',
    ],
    [
      'another version',
      '{"apiVersion":"v2","kind":"Pod"}',
      'Pod in version "v2" cannot be handled as a Pod: no kind "Pod" is registered for version "v2" in scheme "pkg/api/legacyscheme/scheme.go:30"',
    ],
    [
      'a text for a boolean',
      pod('{"hostNetwork":"yes"}'),
      `${handled}json: cannot unmarshal string into Go struct field PodSpec.spec.hostNetwork of type bool`,
    ],
    [
      'a number for a named string',
      pod('{"dnsPolicy":1}'),
      `${handled}json: cannot unmarshal number into Go struct field PodSpec.spec.dnsPolicy of type v1.DNSPolicy`,
    ],
    [
      'an object for a list',
      pod('{"containers":{}}'),
      `${handled}json: cannot unmarshal object into Go struct field PodSpec.spec.containers of type []v1.Container`,
    ],
    [
      'a text for an object in a list',
      pod('{"containers":["c"]}'),
      `${handled}json: cannot unmarshal string into Go struct field PodSpec.spec.containers of type v1.Container`,
    ],
    [
      'a fraction for an integer',
      pod('{"priority":1.5}'),
      `${handled}json: cannot unmarshal number 1.5 into Go struct field PodSpec.spec.priority of type int32`,
    ],
    [
      'a number beyond 32 bits',
      pod('{"priority":2147483648}'),
      `${handled}json: cannot unmarshal number 2147483648 into Go struct field PodSpec.spec.priority of type int32`,
    ],
    [
      'a label of the wrong type',
      '{"metadata":{"labels":{"a":1}}}',
      `${handled}json: cannot unmarshal number into Go struct field ObjectMeta.metadata.labels of type string`,
    ],
    [
      'a field of an embedded struct',
      pod('{"volumes":[{"name":"v","emptyDir":1}]}'),
      `${handled}json: cannot unmarshal number into Go struct field Volume.spec.volumes.VolumeSource.emptyDir of type v1.EmptyDirVolumeSource`,
    ],
    [
      'a bad quantity',
      pod('{"overhead":{"cpu":"much"}}'),
      `${handled}quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'`,
    ],
    [
      'a bad time',
      '{"metadata":{"creationTimestamp":"today"}}',
      `${handled}parsing time "today" as "2006-01-02T15:04:05Z07:00": cannot parse "today" as "2006"`,
    ],
    [
      'milliseconds where microseconds belong',
      '{"spec":{"renewTime":"2026-11-20T12:00:01.123Z"}}',
      'Lease in version "v1" cannot be handled as a Lease: parsing time "2026-11-20T12:00:01.123Z" as "2006-01-02T15:04:05.000000Z07:00": cannot parse ".123Z" as ".000000"',
      { kind: LEASE },
    ],
    [
      'a boolean for an int or string',
      pod('{"containers":[{"livenessProbe":{"httpGet":{"port":true}}}]}'),
      `${handled}json: cannot unmarshal bool into Go struct field HTTPGetAction.spec.containers.livenessProbe.ProbeHandler.httpGet.port of type int32`,
    ],
    [
      'bad base64',
      '{"data":{"a":"AA"}}',
      'Secret in version "v1" cannot be handled as a Secret: illegal base64 data at input byte 0',
      { kind: { group: '', version: 'v1', kind: 'Secret' } },
    ],
  ];
  for (const [name, text, message, options] of cases) {
    test(name, () => {
      assert.equal(
        refusal(() => decode(text, options)),
        message,
      );
    });
  }

  test('nested too deep', () => {
    const text = '{"spec":'.repeat(2000) + '1' + '}'.repeat(2000);
    assert.match(
      refusal(() => decode(text)),
      /json parse error: exceeded max depth/,
    );
  });
});

suite('custom resources', () => {
  const type = typeOfCrdSchema({
    type: 'object',
    properties: {
      spec: {
        type: 'object',
        properties: {
          mode: { type: 'string' },
          note: { type: 'string', nullable: true },
          open: { type: 'object', 'x-kubernetes-preserve-unknown-fields': true },
          map: { type: 'object', additionalProperties: { type: 'object', properties: { a: { type: 'integer' } } } },
          items: { type: 'array', items: { type: 'object', properties: { a: { type: 'integer' } } } },
        },
      },
    },
  });
  const kind = { group: 'example.com', version: 'v1', kind: 'Widget' };
  const decodeWidget = (body: object, fieldValidation: FieldValidation = 'Warn') =>
    decodeBody({ text: JSON.stringify(body), contentType: 'application/json', type, kind, fieldValidation });

  const cases: [name: string, spec: object, expected: object, warnings: string[]][] = [
    ['empty values stay', { mode: '', items: [], map: {} }, { mode: '', items: [], map: {} }, []],
    ['wrong types stay, for validation to see', { mode: 1, items: 'x' }, { mode: 1, items: 'x' }, []],
    ['nulls go unless they are allowed', { mode: null, note: null }, { note: null }, []],
    [
      'unknown fields go',
      { z: 1, b: 1, mode: 'a' },
      { mode: 'a' },
      ['unknown field "spec.b"', 'unknown field "spec.z"'],
    ],
    [
      'unknown fields go at every depth',
      { items: [{ a: 1, b: 2 }], map: { k: { a: 1, b: 2 } } },
      { items: [{ a: 1 }], map: { k: { a: 1 } } },
      ['unknown field "spec.items[0].b"', 'unknown field "spec.map.k.b"'],
    ],
    ['open objects keep what they hold', { open: { a: { b: null } } }, { open: { a: { b: null } } }, []],
  ];
  for (const [name, spec, expected, warnings] of cases) {
    test(name, () => {
      const decoded = decodeWidget({ spec });
      assert.deepEqual([decoded.object['spec'], decoded.warnings], [expected, warnings]);
    });
  }

  test('unknown fields of metadata are named first', () => {
    assert.deepEqual(decodeWidget({ a: 1, metadata: { name: 'w', bogus: 1 } }).warnings, [
      'unknown field "metadata.bogus"',
      'unknown field "a"',
    ]);
  });

  test('strict', () => {
    assert.equal(
      refusal(() => decodeWidget({ spec: { bogus: 1 } }, 'Strict')),
      'Widget in version "v1" cannot be handled as a Widget: strict decoding error: unknown field "spec.bogus"',
    );
  });

  test('metadata of a wrong type is refused at once', () => {
    assert.match(
      refusal(() => decodeWidget({ metadata: { labels: { a: 1 } } })),
      /json: cannot unmarshal number into Go struct field ObjectMeta\.\S* of type string$/,
    );
  });
});
