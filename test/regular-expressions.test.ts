/** Tests that every regular expression in src/ takes linear time for every text. */
import assert from 'node:assert/strict';
import { globSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { suite, test } from 'node:test';
import ts from 'typescript';
import { findSlowText } from './support/regex-attack.ts';

const SOURCE = join(import.meta.dirname, '../src');

/** Regular expressions whose pattern is not a constant, with the reason why they are safe. */
const COMPUTED: Readonly<Record<string, string>> = {
  'new RegExp(pattern)':
    'dev-cluster/cel.ts: the pattern of a policy that the user of the development cluster creates on the same machine',
  "new RegExp(`(?<!kubectl |-n |--namespace |[\\\\w./=-])${PROGRAM} ${words}(?=${first})`, 'g')":
    'cli/program.ts: names of commands, in texts of the program',
};

const files = new Map<string, ts.SourceFile>();

function parseFile(path: string): ts.SourceFile {
  const file = files.get(path) ?? ts.createSourceFile(path, readFileSync(path, 'utf8'), ts.ScriptTarget.Latest, true);
  files.set(path, file);
  return file;
}

/** Returns the initializer of a constant in a file or in a file from which it imports the constant. */
function findInitializer(file: ts.SourceFile, name: string): ts.Expression | undefined {
  let found: ts.Expression | undefined;
  const visit = (node: ts.Node): void => {
    if (ts.isVariableDeclaration(node) && ts.isIdentifier(node.name) && node.name.text === name) {
      found = node.initializer;
    } else if (ts.isImportSpecifier(node) && node.name.text === name) {
      const { moduleSpecifier } = node.parent.parent.parent;
      if (ts.isStringLiteral(moduleSpecifier) && moduleSpecifier.text.startsWith('.')) {
        const path = join(dirname(file.fileName), moduleSpecifier.text);
        found = findInitializer(parseFile(path), (node.propertyName ?? node.name).text);
      }
    }
    ts.forEachChild(node, visit);
  };
  visit(file);
  return found;
}

/** Evaluates a constant string or a joined list of strings. Returns `undefined` for any other expression. */
function evaluate(node: ts.Expression): string | undefined {
  if (ts.isStringLiteralLike(node)) return node.text;
  if (ts.isIdentifier(node)) {
    const initializer = findInitializer(node.getSourceFile(), node.text);
    return initializer && evaluate(initializer);
  }
  if (ts.isTaggedTemplateExpression(node) && node.tag.getText() === 'String.raw') {
    return evaluateTemplate(node.template, (part) => part.rawText ?? '');
  }
  if (ts.isTemplateExpression(node)) return evaluateTemplate(node, (part) => part.text);
  if (ts.isPropertyAccessExpression(node) && node.name.text === 'source') return evaluate(node.expression);
  if (ts.isRegularExpressionLiteral(node)) return readLiteral(node).source;
  if (ts.isCallExpression(node) && node.getText().endsWith(".join('|')")) {
    const list = (node.expression as ts.PropertyAccessExpression).expression;
    const value = ts.isIdentifier(list) ? findInitializer(list.getSourceFile(), list.text) : list;
    const items = value && ts.isArrayLiteralExpression(value) ? value.elements.map(evaluate) : [undefined];
    return items.includes(undefined) ? undefined : items.join('|');
  }
  return undefined;
}

function evaluateTemplate(
  node: ts.TemplateLiteral,
  read: (part: ts.TemplateLiteralLikeNode) => string,
): string | undefined {
  if (ts.isNoSubstitutionTemplateLiteral(node)) return read(node);
  const parts = node.templateSpans.map(({ expression, literal }) => {
    const value = evaluate(expression);
    return value === undefined ? undefined : value + read(literal);
  });
  return parts.includes(undefined) ? undefined : read(node.head) + parts.join('');
}

function readLiteral({ text }: ts.RegularExpressionLiteral): RegExp {
  const end = text.lastIndexOf('/');
  return new RegExp(text.slice(1, end), text.slice(end + 1));
}

interface Found {
  readonly location: string;
  readonly text: string;
  /** The pattern. Absent if it is not a constant. */
  readonly pattern: RegExp | undefined;
}

function findExpressions(path: string): readonly Found[] {
  const file = parseFile(path);
  const found: Found[] = [];
  const add = (node: ts.Node, pattern: RegExp | undefined): void => {
    const { line } = file.getLineAndCharacterOfPosition(node.getStart());
    found.push({ location: `${path.slice(SOURCE.length + 1)}:${line + 1}`, text: node.getText(), pattern });
  };
  const visit = (node: ts.Node): void => {
    if (ts.isRegularExpressionLiteral(node)) add(node, readLiteral(node));
    const isCall = ts.isNewExpression(node) || ts.isCallExpression(node);
    if (isCall && /^(?:globalThis\.)?RegExp$/.test(node.expression.getText())) {
      const [source, flags] = (node.arguments ?? []).map(evaluate);
      add(node, source === undefined ? undefined : new RegExp(source, flags));
    }
    ts.forEachChild(node, visit);
  };
  visit(file);
  return found;
}

const expressions = globSync(`${SOURCE}/**/*.{ts,tsx}`).sort().flatMap(findExpressions);

suite('regular expressions take linear time', () => {
  for (const { location, text, pattern } of expressions) {
    if (!pattern) continue;
    test(`${location} ${text}`, async () => assert.equal(await findSlowText(pattern), undefined));
  }

  test('or are listed with a reason why they do not', () => {
    assert.ok(expressions.length > 200, 'the search finds too few expressions');
    const computed = expressions.filter(({ pattern }) => !pattern);
    assert.deepEqual(
      computed.map(({ text }) => text).sort(),
      Object.keys(COMPUTED).sort(),
      computed.map(({ location, text }) => `${location}: ${text}`).join('\n'),
    );
  });
});

suite('the search finds expressions that take more than linear time', () => {
  const slow: readonly RegExp[] = [
    /\s+$/,
    /^(a+)+$/,
    /^(?:a*)*b/,
    /^(?:a|a)*b/,
    /^(?:[ab]+c?)*$/,
    /^(\d+\.?\d*|\.\d+)s/,
    /^\s*,?\s*x/,
    /x.*y.*z$/,
    /\[([^\]]*)\]|([^.[\]]+)/g,
    /"[^"\\]*(?:\\.[^"\\]*)*"|[{}]/gs,
    /^(?:(?=\s*b)\s)*b/,
    /a[^b]*b/g,
  ];
  for (const pattern of slow) {
    test(String(pattern), async () => assert.match((await findSlowText(pattern)) ?? '', /takes \d+ ms$/));
  }
});
