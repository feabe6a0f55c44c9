import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { decodeBody } from '../../../src/dev-cluster/fields/decode.ts';
import { BUILT_IN, customResourceSchema } from '../../../src/dev-cluster/fields/schema.ts';
import { ApiError } from '../../../src/kube/status.ts';

const POD = { group: '', version: 'v1', kind: 'Pod' };
const DEPLOYMENT = { group: 'apps', version: 'v1', kind: 'Deployment' };

function decode(text: string, kind = POD) {
  return decodeBody(text, { ...kind, schema: BUILT_IN });
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
  return assert.fail('no error was thrown');
}

suite('when a request body is decoded,', () => {
  const cases: [name: string, spec: string, expected: unknown][] = [
    ['unknown fields and values with the wrong type are kept', '{"bogus":1,"hostNetwork":"yes"}', undefined],
    ['keys that JavaScript treats specially are kept', '{"nodeSelector":{"constructor":"a"}}', undefined],
    ['quantities become strings', '{"overhead":{"cpu":1}}', { overhead: { cpu: '1' } }],
  ];
  for (const [name, spec, expected = JSON.parse(spec) as unknown] of cases) {
    test(name, () => {
      assert.deepEqual(decode(`{"apiVersion":"v1","kind":"Pod","spec":${spec}}`)['spec'], expected);
    });
  }

  test('kind and version default to the URL', () => {
    assert.deepEqual(decode('{}', DEPLOYMENT), { kind: 'Deployment', apiVersion: 'apps/v1' });
  });

  test('null fields of custom resources are kept if the schema allows null', () => {
    const text = { type: 'string' };
    const spec = { type: 'object', properties: { mode: text, note: { ...text, nullable: true } } };
    const kind = { group: 'example.com', version: 'v1', kind: 'Widget' };
    const body = '{"spec":{"mode":null,"note":null,"items":[]}}';
    const schema = customResourceSchema({ type: 'object', properties: { spec } });
    assert.deepEqual(decodeBody(body, { ...kind, schema })['spec'], { note: null, items: [] });
  });
});

suite('malformed bodies are rejected:', () => {
  const handled = 'Pod in version "v1" cannot be handled as a Pod: json: cannot unmarshal';
  const cases: [name: string, text: string, message: string][] = [
    [
      'an object of another kind',
      '{"apiVersion":"v1","kind":"ConfigMap"}',
      'ConfigMap in version "v1" cannot be handled as a Pod: no kind "ConfigMap" is registered for version "v1" in scheme "pkg/api/legacyscheme/scheme.go:30"',
    ],
    [
      'metadata of the wrong type',
      '{"metadata":1}',
      `${handled} number into Go struct field .metadata of type v1.ObjectMeta`,
    ],
    [
      'a label of the wrong type',
      '{"metadata":{"labels":{"a":1}}}',
      'Pod in version "v1" cannot be handled as a Pod: metadata.labels must be a map of strings',
    ],
  ];
  for (const [name, text, message] of cases) {
    test(name, () => {
      assert.equal(
        refusal(() => decode(text)),
        message,
      );
    });
  }
});
