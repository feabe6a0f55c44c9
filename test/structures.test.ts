/**
 * Compares the table in test/structures.md with the source code. The table lists the data that replicas keep, so it
 * must contain each collection that lives longer than a call, with its limit.
 */
import assert from 'node:assert/strict';
import { globSync, readFileSync } from 'node:fs';
import { test } from 'node:test';
import ts from 'typescript';

/** The parts that a replica runs. */
const FILES = [
  'src/{cluster,controllers,server,telemetry,tls,views}/**/*.ts',
  'src/cli/serve/*.ts',
  'src/config/settings.ts',
  'src/policy/{rbac/authorizer,psa/configuration}.ts',
];
const PAGE = 'test/structures.md';

/** Methods that add to a collection. */
const ADDING = new Set(['set', 'add', 'push', 'unshift', 'splice']);

/**
 * Returns the collections that grow after they were created and that outlive the function call that changes them, as
 * `file: name`. A variable outlives the call if a nested function changes it, and the variable belongs to a module or to
 * a function that returns functions.
 */
function findCollections(path: string, text: string): readonly string[] {
  const file = ts.createSourceFile(path, text, ts.ScriptTarget.Latest, true);
  const found = new Set<string>();
  const visit = (node: ts.Node): void => {
    const name = createdName(node);
    if (name !== undefined && isKept(node, name)) found.add(`${path.slice('src/'.length)}: ${name}`);
    ts.forEachChild(node, visit);
  };
  visit(file);
  return [...found];
}

/** Returns the name of the variable or member that a collection is assigned to. */
function createdName(node: ts.Node): string | undefined {
  const isVariable = ts.isVariableDeclaration(node) || ts.isPropertyAssignment(node);
  if (!isVariable || !ts.isIdentifier(node.name) || node.initializer === undefined) return undefined;
  return isCollection(node.initializer) ? node.name.text : undefined;
}

function isCollection(node: ts.Expression): boolean {
  if (ts.isAsExpression(node)) return isCollection(node.expression);
  if (ts.isNewExpression(node)) return /^(Weak)?(Map|Set)$/.test(node.expression.getText());
  if (ts.isArrayLiteralExpression(node)) return node.elements.length === 0;
  return ts.isCallExpression(node) && /^(createCache|memoize)$/.test(node.expression.getText());
}

/** Returns true if a function that is nested in the scope of the collection changes it. */
function isKept(node: ts.Node, name: string): boolean {
  const owner = findFunction(node);
  const scope = owner ?? node.getSourceFile();
  const isMemo = ts.isVariableDeclaration(node) && /^memoize\(/.test(node.initializer?.getText() ?? '');
  if (isMemo) return owner === undefined;
  // Other files may change a member of an exported state.
  if (ts.isPropertyAssignment(node) && /^create/.test(owner?.name?.getText() ?? '')) return true;
  let isChanged = false;
  const visit = (inner: ts.Node): void => {
    if (isChange(inner, name) && findFunction(inner) !== owner) isChanged = true;
    if (!isChanged) ts.forEachChild(inner, visit);
  };
  visit(ts.isPropertyAssignment(node) ? node.getSourceFile() : scope);
  return isChanged && (owner === undefined || returnsFunctions(owner));
}

function isChange(node: ts.Node, name: string): boolean {
  if (ts.isBinaryExpression(node) && node.operatorToken.kind === ts.SyntaxKind.EqualsToken)
    return new RegExp(`^(?:.*\\.)?${name}$`).test(node.left.getText());
  if (!ts.isCallExpression(node) || !ts.isPropertyAccessExpression(node.expression)) return false;
  const { expression, name: method } = node.expression;
  return ADDING.has(method.text) && new RegExp(`^(?:.*\\.)?${name}$`).test(expression.getText());
}

function findFunction(node: ts.Node): ts.FunctionLikeDeclaration | undefined {
  for (let parent = node.parent as ts.Node | undefined; parent; parent = parent.parent) {
    if (ts.isFunctionLike(parent) && 'body' in parent) return parent;
  }
  return undefined;
}

/** Returns true if the function returns a function, or an object with functions or with the collection. */
function returnsFunctions(owner: ts.FunctionLikeDeclaration): boolean {
  if (/^(register|watch|limit)[A-Z]/.test(owner.name?.getText() ?? '')) return true;
  if (owner.body && !ts.isBlock(owner.body)) return /=>|\{/.test(owner.body.getText());
  let isFound = false;
  const visit = (node: ts.Node): void => {
    if (ts.isReturnStatement(node) && findFunction(node) === owner && node.expression) {
      const { expression } = node;
      const isValue = ts.isObjectLiteralExpression(expression) || ts.isArrowFunction(expression);
      if (isValue || ts.isFunctionExpression(expression)) isFound = true;
    }
    ts.forEachChild(node, visit);
  };
  if (owner.body) ts.forEachChild(owner.body, visit);
  return isFound;
}

/** Collections that the search finds although they do not outlive a call or contain only a fixed number of items. */
const LOCAL = new Set([
  'cli/serve/dev-cluster.ts: clients',
  'controllers/namespace-evaluator.ts: known',
  'controllers/olm-auto-labeler.ts: byNamespace',
  'controllers/scc-health.ts: broken',
  'controllers/scc-health.ts: missing',
  'tls/keyring.ts: problems',
]);

/** Reads the first column of the table. */
function readTable(page: string): readonly string[] {
  return page.split('\n').flatMap((line) => {
    const [, cell = ''] = /^\| `([^`]+)`(?:, .*)? \|/.exec(line) ?? [];
    if (cell === '') return [];
    const names = [...(line.split(' | ')[0] ?? '').matchAll(/`([^`]+)`/g)].map(([, name = '']) => name);
    const [first = '', ...others] = names;
    const file = first.split(': ')[0] ?? '';
    return [first, ...others.map((name) => `${file}: ${name}`)];
  });
}

test('test/structures.md lists all collections that replicas keep in memory', () => {
  const found = new Set(globSync(FILES).flatMap((path) => findCollections(path, readFileSync(path, 'utf8'))));
  assert.deepEqual(
    [...LOCAL].filter((name) => !found.has(name)),
    [],
  );
  const collections = [...found].filter((name) => !LOCAL.has(name)).sort();
  assert.deepEqual(readTable(readFileSync(PAGE, 'utf8')).toSorted(), collections);
});

const CASES: readonly (readonly [source: string, ...found: string[]])[] = [
  ['const a = new Map(); function f() { a.set(1, 1); }', 'a'],
  ['const a = new Map([[1, 2]]); function f() { return a.get(1); }'],
  ['function create() { const a = new Set(); return { f: () => a.add(1) }; }', 'a'],
  ['function create() { const a = []; return (x) => a.push(x); }', 'a'],
  ['function create() { let a = []; return (x) => { a = [...a, x]; }; }', 'a'],
  ['function f() { const a = []; [1].forEach((x) => a.push(x)); return a; }'],
  ['function f() { const a = new Map(); a.set(1, 2); return { a }; }'],
  ['const a = memoize((x) => x); const b = createCache({}); const f = () => b.set(1, 1);', 'a', 'b'],
  ['function create() { const s = { list: new Map() }; return { f: () => s.list.set(1, 1) }; }', 'list'],
];

test('findCollections finds the collections that outlive a call', () => {
  for (const [source, ...found] of CASES) {
    assert.deepEqual(
      findCollections('src/a.ts', source),
      found.map((name) => `a.ts: ${name}`),
      source,
    );
  }
});
