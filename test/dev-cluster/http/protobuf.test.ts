import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { loadSchemas } from '../../../src/dev-cluster/fields/index.ts';
import { createProtobufDecoder } from '../../../src/dev-cluster/http/protobuf/decode.ts';
import { ApiError } from '../../../src/kube/status.ts';

const decode = createProtobufDecoder(loadSchemas());

/** A message: numbers are varints, texts and messages are bytes. */
type Message = readonly (readonly [number: number, value: number | bigint | string | Buffer])[];

function varint(value: bigint): Buffer {
  const bytes: number[] = [];
  let rest = BigInt.asUintN(64, value);
  do {
    bytes.push(Number(rest & 0x7fn) | (rest > 0x7fn ? 0x80 : 0));
    rest >>= 7n;
  } while (rest > 0n);
  return Buffer.from(bytes);
}

function message(fields: Message): Buffer {
  return Buffer.concat(
    fields.flatMap(([number, value]) => {
      if (typeof value === 'number' || typeof value === 'bigint') {
        return [varint(BigInt(number) * 8n), varint(BigInt(value))];
      }
      const bytes = Buffer.from(value);
      return [varint(BigInt(number) * 8n + 2n), varint(BigInt(bytes.length)), bytes];
    }),
  );
}

/** An object as kubectl sends it. */
function envelope(apiVersion: string, kind: string, raw: Buffer): Buffer {
  const type = message([
    [1, apiVersion],
    [2, kind],
  ]);
  return Buffer.concat([
    Buffer.from('k8s\0'),
    message([
      [1, type],
      [2, raw],
      [3, ''],
      [4, ''],
    ]),
  ]);
}

function plain(value: unknown): unknown {
  return JSON.parse(JSON.stringify(value)) as unknown;
}

const meta = (name: string): Buffer =>
  message([
    [1, name],
    [2, ''],
    [8, message([])],
  ]);
const label = (key: string, value: string): Buffer =>
  message([
    [1, key],
    [2, value],
  ]);

describe('objects in protobuf', () => {
  const cases: readonly [what: string, body: Buffer, object: object][] = [
    [
      'a namespace, with all that Go writes',
      envelope(
        'v1',
        'Namespace',
        message([
          [1, meta('a')],
          [2, message([])],
          [3, message([[1, '']])],
        ]),
      ),
      { apiVersion: 'v1', kind: 'Namespace', metadata: { name: 'a' }, spec: {}, status: {} },
    ],
    [
      'maps of texts and of bytes',
      envelope(
        'v1',
        'ConfigMap',
        message([
          [1, meta('a')],
          [2, label('k', 'v')],
          [2, label('__proto__', 'w')],
          [3, label('b', 'ab')],
        ]),
      ),
      JSON.parse(
        '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"k":"v","__proto__":"w"},"binaryData":{"b":"YWI="}}',
      ) as object,
    ],
    [
      'pointers that hold zero, numbers below zero, lists of numbers, embedded structs',
      envelope(
        'v1',
        'Pod',
        message([
          [1, meta('p')],
          [
            2,
            message([
              [
                1,
                message([
                  [1, 'v'],
                  [
                    2,
                    message([
                      [
                        2,
                        message([
                          [1, ''],
                          [2, message([[1, '64Mi']])],
                        ]),
                      ],
                    ]),
                  ],
                ]),
              ],
              [4, 0],
              [11, 0],
              [
                14,
                message([
                  [2, 0],
                  [4, 5],
                  [4, 7],
                  [5, -1],
                ]),
              ],
              [25, -10n],
            ]),
          ],
        ]),
      ),
      {
        apiVersion: 'v1',
        kind: 'Pod',
        metadata: { name: 'p' },
        spec: {
          volumes: [{ name: 'v', emptyDir: { sizeLimit: '64Mi' } }],
          terminationGracePeriodSeconds: 0,
          securityContext: { runAsUser: 0, supplementalGroups: [5, 7], fsGroup: -1 },
          priority: -10,
        },
      },
    ],
    [
      'numbers or texts, and times',
      envelope(
        'policy/v1',
        'PodDisruptionBudget',
        message([
          [
            1,
            message([
              [1, 'b'],
              [
                8,
                message([
                  [1, 1_700_000_000],
                  [2, 0],
                ]),
              ],
            ]),
          ],
          [
            2,
            message([
              [
                1,
                message([
                  [1, 1],
                  [2, 0],
                  [3, '50%'],
                ]),
              ],
              [
                3,
                message([
                  [1, 0],
                  [2, 3],
                  [3, ''],
                ]),
              ],
            ]),
          ],
        ]),
      ),
      {
        apiVersion: 'policy/v1',
        kind: 'PodDisruptionBudget',
        metadata: { name: 'b', creationTimestamp: '2023-11-14T22:13:20Z' },
        spec: { minAvailable: '50%', maxUnavailable: 3 },
      },
    ],
    [
      'fields that are not known',
      envelope(
        'v1',
        'ServiceAccount',
        message([
          [1, meta('a')],
          [99, 'x'],
          [98, 7],
        ]),
      ),
      { apiVersion: 'v1', kind: 'ServiceAccount', metadata: { name: 'a' } },
    ],
    [
      'lists as values of a map',
      envelope(
        'authorization.k8s.io/v1',
        'SubjectAccessReview',
        message([
          [
            2,
            message([
              [3, 'u'],
              [
                5,
                message([
                  [1, 'scopes'],
                  [
                    2,
                    message([
                      [1, 'a'],
                      [1, 'b'],
                    ]),
                  ],
                ]),
              ],
            ]),
          ],
        ]),
      ),
      {
        apiVersion: 'authorization.k8s.io/v1',
        kind: 'SubjectAccessReview',
        spec: { user: 'u', extra: { scopes: ['a', 'b'] } },
      },
    ],
  ];
  for (const [what, body, object] of cases) {
    test(what, () => assert.deepEqual(plain(decode(body)), object));
  }

  const refused: readonly [what: string, body: Buffer, message: string][] = [
    [
      'JSON',
      Buffer.from('{"kind":"Pod"}'),
      'provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]',
    ],
    ['nothing behind the prefix', Buffer.from('k8s\0'), 'no kind "" is registered for version "" in protobuf'],
    [
      'a custom kind',
      envelope('example.com/v1', 'Gadget', Buffer.alloc(0)),
      'no kind "Gadget" is registered for version "example.com/v1" in protobuf',
    ],
    ['a message that is cut', envelope('v1', 'Pod', Buffer.from([0x0a, 0x05, 0x01])), 'unexpected EOF'],
    ['a wire type that is gone', envelope('v1', 'Pod', Buffer.from([0x0b])), 'proto: illegal wireType 3'],
    ['a number without an end', envelope('v1', 'Pod', Buffer.alloc(12, 0xff)), 'proto: integer overflow'],
  ];
  for (const [what, body, message] of refused) {
    test(`${what} is refused`, () => {
      assert.throws(
        () => decode(body),
        (error) => {
          assert.ok(error instanceof ApiError, String(error));
          assert.equal(error.status.message, message);
          return error.status.code === 400;
        },
      );
    });
  }

  test('any bytes are decoded or refused, and nothing else happens', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 200 }), (bytes) => {
        try {
          decode(envelope('v1', 'Pod', Buffer.from(bytes)));
        } catch (error) {
          assert.ok(error instanceof ApiError, String(error));
        }
      }),
    );
  });
});
