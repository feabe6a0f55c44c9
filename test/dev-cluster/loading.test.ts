import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path/posix';
import { test } from 'node:test';
import ts from 'typescript';

interface Import {
  readonly path: string;
  readonly dynamic: boolean;
}

const sources = new Map(
  readdirSync('src', { recursive: true, encoding: 'utf8' })
    .filter((path) => path.endsWith('.ts'))
    .map((path) => [`src/${path}`, readFileSync(`src/${path}`, 'utf8')]),
);

/** Returns the modules that a file loads at run time. `import type` loads none. */
function runtimeImports(path: string): readonly Import[] {
  const imports: Import[] = [];
  const add = (node: ts.Node | undefined, dynamic: boolean): void => {
    if (!node || !ts.isStringLiteralLike(node) || !node.text.startsWith('.')) return;
    imports.push({ path: join(dirname(path), node.text), dynamic });
  };
  const visit = (node: ts.Node): void => {
    if (ts.isImportDeclaration(node)) {
      if (node.importClause?.phaseModifier !== ts.SyntaxKind.TypeKeyword) add(node.moduleSpecifier, false);
    } else if (ts.isExportDeclaration(node)) {
      if (!node.isTypeOnly) add(node.moduleSpecifier, false);
    } else if (ts.isCallExpression(node) && node.expression.kind === ts.SyntaxKind.ImportKeyword) {
      add(node.arguments[0], true);
    }
    ts.forEachChild(node, visit);
  };
  visit(ts.createSourceFile(path, sources.get(path) ?? '', ts.ScriptTarget.Latest));
  return imports;
}

function isDevCluster(path: string): boolean {
  return path.startsWith('src/dev-cluster/');
}

test('no static import leads from the program to the development cluster', () => {
  const chains = new Map<string, readonly string[]>([['src/main.ts', ['src/main.ts']]]);
  for (const [file, chain] of chains) {
    for (const { path, dynamic } of runtimeImports(file)) {
      if (dynamic && isDevCluster(path)) continue;
      assert.ok(!isDevCluster(path), `loaded at every start: ${[...chain, path].join(' -> ')}`);
      if (!chains.has(path)) chains.set(path, [...chain, path]);
    }
  }
  assert.ok(chains.has('src/cli/serve/dev-cluster.ts'));
});
