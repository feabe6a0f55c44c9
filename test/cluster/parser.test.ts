import assert from 'node:assert/strict';
import { after, describe, test } from 'node:test';
import fc from 'fast-check';
import { createParser, type Parser, startParseWorker } from '../../src/cluster/parser.ts';
import { LIMITS } from '../../src/kube/limits.ts';
import type { JsonObject } from '../../src/kube/types.ts';

async function* streamOf(...chunks: readonly Buffer[]): AsyncGenerator<Buffer, void> {
  for (const chunk of chunks) yield await Promise.resolve(chunk);
}

const collectLines = async (parser: Parser, ...chunks: readonly Buffer[]): Promise<readonly string[]> => {
  const lines: string[] = [];
  for await (const bytes of parser.lines(streamOf(...chunks))) lines.push(bytes.toString());
  return lines;
};

describe('lines of a stream', () => {
  const line = fc.string({ unit: 'grapheme', maxLength: 20 }).map((text) => text.replaceAll('\n', ''));

  test('do not depend on chunk sizes', async () => {
    const property = fc.asyncProperty(
      fc.array(line),
      fc.array(fc.integer({ min: 1, max: 9 })),
      async (lines, sizes) => {
        const bytes = Buffer.from(lines.map((text) => `${text}\n`).join(''));
        const chunks: Buffer[] = [];
        for (let start = 0, turn = 0; start < bytes.length; turn++) {
          const end = start + (sizes[turn % Math.max(1, sizes.length)] ?? bytes.length);
          chunks.push(bytes.subarray(start, end));
          start = end;
        }
        assert.deepEqual(await collectLines(createParser(), ...chunks), lines);
      },
    );
    await fc.assert(property);
  });

  test('are limited in length', async () => {
    const half = (): Buffer => Buffer.alloc(LIMITS.responseBytes / 2, 'a');
    const [line] = await collectLines(createParser(), half(), half(), Buffer.from('\n'));
    assert.equal(line, 'a'.repeat(LIMITS.responseBytes));
    await assert.rejects(collectLines(createParser(), half(), half(), Buffer.from('a\n')), {
      message: 'more than 16777216 bytes',
    });
  });

  test('that exceed 256 KiB are parsed one at a time', async () => {
    const parser = createParser();
    const order: string[] = [];
    const read = async (name: string): Promise<void> => {
      for await (const bytes of parser.lines(streamOf(Buffer.alloc(300_000, 'a'), Buffer.from('\n')))) {
        order.push(`${name} begins`);
        await new Promise((resolve) => setTimeout(resolve, 20));
        order.push(`${name} ends, ${bytes.length}`);
      }
    };
    await Promise.all([read('a'), read('b')]);
    assert.deepEqual(order, ['a begins', 'a ends, 300000', 'b begins', 'b ends, 300000']);
  });
});

describe('a parser', () => {
  const parser = createParser(startParseWorker);
  after(() => parser.close());

  const parse = async (text: string, form: 'list' | 'event', kind?: 'Pod'): Promise<readonly unknown[]> => {
    const { head, parts } = await parser.parse(Buffer.from(text), { form, kind });
    return [head, parts?.flatMap((part) => part())];
  };
  const pod = (name: string, env: string): JsonObject => ({
    metadata: { name, uid: name, resourceVersion: '1' },
    spec: { containers: [{ name: 'c', image: 'i', env: [{ name: 'A', value: env }] }] },
  });
  const stored = (name: string): JsonObject => ({
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { name, uid: name, resourceVersion: '1' },
    spec: { containers: [{ name: 'c', image: 'i' }] },
  });

  for (const [name, env] of [
    ['the main thread', 'x'],
    ['the worker', 'x'.repeat(LIMITS.mainThreadBytes)],
  ] as const) {
    test(`returns the parts of lists and events that the store keeps, in ${name}`, async () => {
      const metadata = { resourceVersion: '7', continue: 'c' };
      const items = Array.from({ length: 600 }, (_, index) => pod(`p${index}`, index === 5 ? env : ''));
      const [head, objects] = await parse(JSON.stringify({ kind: 'PodList', metadata, items }), 'list', 'Pod');
      assert.deepEqual(head, { kind: 'PodList', metadata });
      assert.deepEqual(
        objects,
        items.map((_, index) => stored(`p${index}`)),
      );
      const event = JSON.stringify({ type: 'ADDED', object: pod('a', env) });
      assert.deepEqual(await parse(event, 'event', 'Pod'), [{ type: 'ADDED' }, [stored('a')]]);
      assert.deepEqual(await parse(`["${env}"]`, 'list'), [{ kind: undefined, metadata: undefined }, undefined]);
      await assert.rejects(parse(`{"${env}`, 'list'), { name: 'SyntaxError' });
    });
  }

  test('ignores deeply nested values in fields that no decision reads', async () => {
    const fieldsV1 = `${'{"f:a":'.repeat(5000)}{}${'}'.repeat(5000)}`;
    const object = JSON.stringify(pod('a', '')).replace('"uid"', `"managedFields":[{"fieldsV1":${fieldsV1}}],"uid"`);
    const text = `{"type":"ADDED","object":${object}}`;
    assert.deepEqual(await parse(text, 'event', 'Pod'), [{ type: 'ADDED' }, [stored('a')]]);
  });

  test('rejects input with too many values or levels of nesting', { timeout: 60_000 }, async () => {
    const many = 'more than 1500000 values';
    for (const [text, message] of [
      [`[${'{},'.repeat(5_000_000)}`, many],
      [`[${'[0],'.repeat(4_000_000)}`, many],
      [`{"a":${'['.repeat(200_000)}`, 'nested more than 10000 levels deep'],
    ] as const) {
      await assert.rejects(parse(text, 'list'), { message });
    }
  });
});
