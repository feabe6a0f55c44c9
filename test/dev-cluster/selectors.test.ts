import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { parseFieldSelector } from '../../src/dev-cluster/field-selector.ts';
import { parseLabelSelector } from '../../src/dev-cluster/label-selector.ts';
import { builtInResources } from '../../src/dev-cluster/resources.ts';
import { strategyOf } from '../../src/dev-cluster/objects/index.ts';
import type { ResourceInfo } from '../../src/dev-cluster/types.ts';
import { ApiError } from '../../src/kube/status.ts';

const KEY_RULE =
  "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";

describe('label selectors', () => {
  const selects: readonly [selector: string, labels: Record<string, string>, selected: boolean][] = [
    ['', {}, true],
    ['a', { a: '' }, true],
    ['a', {}, false],
    ['!a', {}, true],
    ['!a', { a: '1' }, false],
    ['a=1', { a: '1' }, true],
    ['a==1', { a: '1' }, true],
    ['a=1', { a: '2' }, false],
    ['a=', { a: '' }, true],
    ['a!=1', {}, true],
    ['a!=1', { a: '1' }, false],
    ['a in (1,2)', { a: '2' }, true],
    ['a in ( 1 , 2 )', { a: '1' }, true],
    ['a in (1,2)', {}, false],
    ['a in (,1)', { a: '' }, true],
    ['a notin (1,2)', { a: '3' }, true],
    ['a notin (1,2)', {}, true],
    ['a notin (1,2)', { a: '1' }, false],
    ['a>5', { a: '6' }, true],
    ['a>5', { a: '5' }, false],
    ['a<5', { a: 'x' }, false],
    ['a=1,b=2', { a: '1', b: '2' }, true],
    ['a=1,b=2', { a: '1' }, false],
    ['in=notin', { in: 'notin' }, true],
    ['example.com/a', { 'example.com/a': '' }, true],
    ['constructor', {}, false],
    ['!toString', {}, true],
  ];
  for (const [selector, labels, selected] of selects) {
    test(`${selector || '(nothing)'} ${selected ? 'selects' : 'leaves out'} ${JSON.stringify(labels)}`, () => {
      assert.equal(parseLabelSelector(selector)(labels), selected);
    });
  }

  const refused: readonly [selector: string, message: string][] = [
    ['=a', "found '=', expected: !, identifier, or 'end of string'"],
    ['a,', "found '', expected: identifier after ','"],
    ['a,,b', "found ',', expected: identifier after ','"],
    ['a=b=c', "found '=', expected: ',' or 'end of string'"],
    ['a b', "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt"],
    ['a in', "unable to parse requirement: found '' expected: '('"],
    ['a in (b', "unable to parse requirement: found '', expected: ',' or ')'"],
    ['!', "unable to parse requirement: found '', expected: identifier"],
    ['-a', `unable to parse requirement: <nil>: Invalid value: "-a": name part ${KEY_RULE}`],
    [
      'a>b',
      "unable to parse requirement: <nil>[0]: Invalid value: \"b\": for 'Gt', 'Lt' operators, the value must be an integer",
    ],
  ];
  for (const [selector, message] of refused) {
    test(`${selector} is refused`, () => refuses(() => parseLabelSelector(selector), message));
  }
});

describe('field selectors', () => {
  const resources = builtInResources(strategyOf);
  const of = (resource: string): ResourceInfo => {
    const found = resources.find((info) => info.resource === resource);
    assert.ok(found);
    return found;
  };
  const pod = { metadata: { name: 'a,b', namespace: 'n' }, spec: { nodeName: 'x' }, status: { phase: 'Running' } };

  const selects: readonly [selector: string, selected: boolean][] = [
    ['', true],
    ['metadata.name=a\\,b', true],
    ['metadata.name==a\\,b,status.phase=Running', true],
    ['metadata.name!=a\\,b', false],
    ['metadata.namespace=n', true],
    ['spec.nodeName=', false],
    ['spec.hostNetwork=false', true],
    ['status.podIP=', true],
  ];
  for (const [selector, selected] of selects) {
    test(`${selector || '(nothing)'} ${selected ? 'selects' : 'leaves out'} the pod`, () => {
      assert.equal(parseFieldSelector(selector, of('pods')).matches(pod), selected);
    });
  }

  const refused: readonly [resource: string, selector: string, message: string][] = [
    ['pods', 'spec.image=x', 'field label not supported: spec.image'],
    ['pods', 'x', "invalid selector: 'x'; can't understand 'x'"],
    ['pods', 'metadata.name=a\\x', 'invalid field selector: invalid escape sequence: \\x'],
    ['pods', 'metadata.name=a=b', 'invalid field selector: unescaped character in value: 61'],
    ['configmaps', 'data=x', '"data" is not a known field selector: only "metadata.name", "metadata.namespace"'],
  ];
  for (const [resource, selector, message] of refused) {
    test(`${selector} of ${resource} is refused`, () =>
      refuses(() => parseFieldSelector(selector, of(resource)), message));
  }
});

function refuses(parse: () => unknown, message: string): void {
  assert.throws(parse, (error) => {
    assert.ok(error instanceof ApiError, String(error));
    assert.equal(error.status.message, message);
    return error.status.code === 400;
  });
}
