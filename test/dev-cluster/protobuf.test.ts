import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { decodeProtobuf } from '../../src/dev-cluster/protobuf.ts';
import { ApiError } from '../../src/kube/status.ts';

type Content = string | number | boolean | Buffer;

/**
 * Returns a message with the given fields. Numbers and booleans are encoded as varints, and all other values as bytes.
 */
function message(...fields: readonly (readonly [number: number, content: Content])[]): Buffer {
  return Buffer.concat(
    fields.flatMap(([number, content]) => {
      if (typeof content === 'number' || typeof content === 'boolean')
        return [varint(number * 8), varint(Number(content))];
      const bytes = Buffer.from(content);
      return [varint(number * 8 + 2), varint(bytes.length), bytes];
    }),
  );
}

function varint(value: number): Buffer {
  const bytes: number[] = [];
  let rest = BigInt.asUintN(64, BigInt(value));
  for (; rest > 127n; rest >>= 7n) bytes.push(Number(rest & 127n) | 128);
  return Buffer.from([...bytes, Number(rest)]);
}

function envelope(apiVersion: string, kind: string, object: Buffer): Buffer {
  return Buffer.concat([Buffer.from('k8s\0'), message([1, message([1, apiVersion], [2, kind])], [2, object])]);
}

const metadata = message([1, 'x'], [11, message([1, 'app'], [2, 'web'])], [8, message([1, 1_767_225_600])]);

suite('decoded protobuf bodies', () => {
  test('contain the fields of a pod', () => {
    const context = message([2, 0], [3, true], [4, 5], [4, 6]);
    const resources = message([1, message([1, 'cpu'], [2, message([1, '100m'])])]);
    const container = message([1, 'c'], [2, 'i'], [4, '-v'], [4, '-w'], [8, resources], [16, false]);
    const volume = message([1, 'v'], [2, message([2, message([1, 'Memory'])])]);
    const spec = message([1, volume], [2, container], [4, 30], [11, true], [12, false], [14, context]);
    assert.deepEqual(
      decodeProtobuf(envelope('v1', 'Pod', message([1, metadata], [2, spec], [3, message([1, 'Running'])]))),
      {
        apiVersion: 'v1',
        kind: 'Pod',
        metadata: { name: 'x', labels: { app: 'web' } },
        spec: {
          volumes: [{ name: 'v', emptyDir: { medium: 'Memory' } }],
          containers: [{ name: 'c', image: 'i', args: ['-v', '-w'], resources: { limits: { cpu: '100m' } } }],
          terminationGracePeriodSeconds: 30,
          hostNetwork: true,
          securityContext: { runAsUser: 0, runAsNonRoot: true, supplementalGroups: [5, 6] },
        },
      },
    );
  });

  test('contain ports by number and by name, and binary data', () => {
    const port = (target: Buffer): Buffer => message([2, 'TCP'], [3, 80], [4, target]);
    const ports = [port(message([1, 0], [2, 8080])), port(message([1, 1], [3, 'http']))];
    const service = message([1, metadata], [2, message(...ports.map((one) => [1, one] as const))]);
    assert.deepEqual(decodeProtobuf(envelope('v1', 'Service', service))['spec'], {
      ports: [
        { protocol: 'TCP', port: 80, targetPort: 8080 },
        { protocol: 'TCP', port: 80, targetPort: 'http' },
      ],
    });
    const secret = message([2, message([1, 'key'], [2, Buffer.from([0, 255])])], [3, 'Opaque']);
    const { data, type } = decodeProtobuf(envelope('v1', 'Secret', secret));
    assert.deepEqual([data, type], [{ key: 'AP8=' }, 'Opaque']);
  });

  const affinity = message([2, message([18, message([1, ''])])]);
  const cases: [name: string, body: Buffer, error: string][] = [
    [
      'an object of another kind',
      envelope('v1', 'Node', Buffer.alloc(0)),
      'the development cluster does not decode Node from protobuf: send JSON',
    ],
    [
      'a field that is not supported',
      envelope('v1', 'Pod', affinity),
      'field 18 of PodSpec is not supported in protobuf: send JSON',
    ],
    ['an invalid wire type', envelope('v1', 'Pod', Buffer.from([11])), 'malformed protobuf message'],
  ];
  for (const [name, body, error] of cases) {
    test(`are rejected: ${name}`, () => {
      assert.throws(() => decodeProtobuf(body), new ApiError({ ...status(error) }));
    });
  }
});

function status(message: string) {
  return { metadata: {}, status: 'Failure', message, reason: 'BadRequest', code: 400 } as const;
}
