import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { parseFieldSelector, parseLabelQuery } from '../../src/dev-cluster/read.ts';
import { ApiError } from '../../src/kube/status.ts';
import { resource } from './admission/support.ts';

describe('label selectors', () => {
  const cases: readonly (readonly [selector: string, labels: Record<string, string>, selected: boolean])[] = [
    ['', {}, true],
    ['!a', { a: '1' }, false],
    ['a==1', { a: '1' }, true],
    ['a = 1', { a: '2' }, false],
    ['a=', { a: '' }, true],
    ['a!=1', { a: '1' }, false],
    ['a in (1,2)', { a: '2' }, true],
    ['a in ( 1 , 2 )', { a: '1' }, true],
    ['a notin (1,2)', { a: '1' }, false],
    ['a=1, b in (2,3),!c', { a: '1', b: '2' }, true],
    ['in=notin', { in: 'notin' }, true],
    ['example.com/a', { 'example.com/a': '' }, true],
  ];
  for (const [selector, labels, selected] of cases) {
    test(`${selector || '(empty)'} ${selected ? 'selects' : 'does not select'} ${JSON.stringify(labels)}`, () => {
      assert.equal(parseLabelQuery(selector)({ metadata: { labels } }), selected);
    });
  }

  for (const selector of ['=a', 'a,', 'a,,b', 'a=b=c', 'a b', 'a in', 'a in (b', '!']) {
    test(`${selector} is invalid`, () => {
      const message = `unable to parse requirement: invalid label selector '${selector}'`;
      assertInvalid(() => parseLabelQuery(selector), message);
    });
  }
});

describe('field selectors', () => {
  const pod = { metadata: { name: 'a', namespace: 'n' }, spec: { nodeName: 'x' }, status: { phase: 'Running' } };
  const cases: readonly (readonly [selector: string, selected: boolean])[] = [
    ['', true],
    ['metadata.name==a,status.phase=Running', true],
    ['metadata.name!=a', false],
    ['metadata.namespace=n', true],
    ['spec.nodeName=', false],
  ];
  for (const [selector, selected] of cases) {
    test(`${selector || '(empty)'} ${selected ? 'selects' : 'does not select'} the pod`, () => {
      assert.equal(parseFieldSelector(selector, resource('pods'))(pod), selected);
    });
  }

  const invalid: readonly (readonly [resource: string, selector: string, message: string])[] = [
    ['pods', 'spec.image=x', 'field label not supported: spec.image (Pod)'],
    ['pods', 'x', "invalid selector: 'x'; can't understand 'x'"],
    ['configmaps', 'data=x', 'field label not supported: data (ConfigMap)'],
  ];
  for (const [name, selector, message] of invalid) {
    test(`${selector} is invalid for ${name}`, () =>
      assertInvalid(() => parseFieldSelector(selector, resource(name)), message));
  }
});

function assertInvalid(parse: () => unknown, message: string): void {
  assert.throws(parse, (error) => {
    assert.ok(error instanceof ApiError, String(error));
    assert.deepEqual([error.status.code, error.status.message], [400, message]);
    return true;
  });
}
