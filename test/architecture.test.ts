/** Checks the imports between the parts of src/, and rules that Oxlint cannot express. */
import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { dirname, join as joinPosix } from 'node:path/posix';
import { test } from 'node:test';
import ts from 'typescript';
import manifest from '../package.json' with { type: 'json' };

/** Source file contents by path below src/. */
type Sources = ReadonlyMap<string, string>;

/** A file may import from its own part and from all earlier layers. */
const LAYERS: readonly (readonly string[])[] = [
  ['kube'],
  ['api'],
  ['policy/pod'],
  ['policy/pss', 'policy/scc', 'policy/rbac', 'policy/uid-range', 'policy/kubelet', 'policy/olm'],
  ['policy/psa'],
  ['policy/rollout'],
  ['telemetry'],
  ['config'],
  ['tls'],
  ['cluster'],
  ['views'],
  ['web'],
  ['dev-cluster', 'server', 'controllers'],
  ['install'],
  ['cli'],
  ['main.ts'],
];

/** Layers before this index are pure. They are synchronous and access neither the clock nor I/O nor packages. */
const PURE_LAYERS = 6;

/**
 * The public files of each part, which other parts may import. All files of `kube`, `api` and `views` are public,
 * because they contain the vocabulary and the read models that the other parts share.
 */
const PUBLIC_FILES: Readonly<Record<string, string>> = {
  'policy/pod': 'index',
  'policy/pss': 'index',
  'policy/psa': 'index',
  'policy/scc': 'index',
  'policy/rbac': 'index',
  'policy/uid-range': 'index',
  'policy/kubelet': 'index',
  'policy/olm': 'index',
  'policy/rollout': 'index',
  telemetry: 'admission counters heap limits logger metrics',
  config:
    'ajv configuration exceptions field-types files fix manifest-files manifests misplaced-fields objects portcullis-configuration setting-paths settings unrendered yaml',
  tls: 'index',
  cluster: `access-reviews bytes cache client clock cluster cluster-source connection event-recorder json lists live-cluster
    network-error object-pool parser projection server-version store writes`,
  web: 'check-order csv fleet-data fleet-view report-data',
  'dev-cluster': 'index',
  server: 'limits probes server webhooks/index',
  controllers: `controller denial-events index leadership permissions replica replica-leases required-webhooks runtime scc-health
    standard-sccs watched-kinds`,
  install: 'index',
};

/** The folders and files that may import a package, or any package in a scope. */
const PACKAGE_IMPORTERS: ReadonlyMap<string, readonly string[]> = new Map([
  ['fastify', ['server/', 'cli/report/dashboard-server.ts', 'dev-cluster/server.ts']],
  ['node-forge', ['tls/']],
  ['commander', ['cli/program.ts']],
  ['pino', ['telemetry/']],
  ['prom-client', ['telemetry/']],
  ['ajv', ['config/ajv.ts', 'dev-cluster/objects/custom-resources.ts']],
  ['diff', ['cli/check/fix.ts']],
  ['yaml', ['config/rewrite.ts', 'config/yaml-layout.ts', 'config/yaml.ts']],
  ['esbuild', ['cli/output/bundle.ts']],
  ['preact', ['web/']],
  ['@codemirror', ['web/editor.ts']],
  ['@lezer', ['web/editor.ts']],
  ['rfc6902', ['dev-cluster/json-patch.ts']],
  ['@marcbachmann/cel-js', ['dev-cluster/']],
  ['@kubernetes/client-node', ['cluster/']],
]);

/** The package of Kubernetes API types. Every file may import its types. */
const TYPES_PACKAGE = '@kubernetes/client-node';

/**
 * The folders of the command line that other folders may import. Each folder may import the folders before it. Only the
 * command tree imports the commands in these folders.
 */
const SHARED_FOLDERS = ['', 'output', 'installation', 'inventory', 'report'];

/** The command tree, which is the only file that may import commands. */
const COMMAND_TREE = 'cli/program.ts';

/** The package manifest, and the file that may import it. */
const MANIFEST = { path: '../package.json', importer: 'cli/command.ts' };

/** Returns one line for each violation, such as `src/kube/types.ts:3: imports …`, in file order. */
function findViolations(sources: Sources): string[] {
  return [...sources].flatMap(([path, text]) => {
    if (findPart(path) === undefined) return [`src/${path}:1: its folder is in no layer`];
    return [
      ...findImports(path, text).flatMap((declaration) =>
        importViolations(sources, path, declaration).map(
          (violation) => `${location(path, declaration.node)}: ${violation}`,
        ),
      ),
      ...findSyntaxViolations(path, text),
    ];
  });
}

/** Returns the file and the line of a node, as in `src/kube/types.ts:3`. */
function location(path: string, node: ts.Node): string {
  return `${joinPosix('src', path)}:${node.getSourceFile().getLineAndCharacterOfPosition(node.getStart()).line + 1}`;
}

/**
 * Returns the part of a file, which is the deepest folder in the layers that contains the file. A part that contains
 * other parts consists only of the files directly in its folder.
 */
function findPart(path: string): string | undefined {
  const names = LAYERS.flat();
  if (names.includes(path)) return path;
  const part = names.filter((name) => path.startsWith(`${name}/`)).sort((a, b) => b.length - a.length)[0];
  const isParent = names.some((name) => name.startsWith(`${part ?? ''}/`));
  return isParent && dirname(path) !== part ? undefined : part;
}

function layerIndex(part: string): number {
  return LAYERS.findIndex((layer) => layer.includes(part));
}

const parsed = new Map<string, ts.SourceFile>();

function parse(path: string, text: string): ts.SourceFile {
  const existing = parsed.get(path);
  if (existing?.text === text) return existing;
  const file = ts.createSourceFile(path, text, ts.ScriptTarget.Latest, true);
  parsed.set(path, file);
  return file;
}

interface Import {
  readonly node: ts.Node;
  /** The imported path or package. `undefined` for a computed specifier. */
  readonly specifier: string | undefined;
  /** True for a type-only import, which does not exist at run time. */
  readonly typeOnly: boolean;
  readonly dynamic: boolean;
}

function findImports(path: string, text: string): readonly Import[] {
  const imports: Import[] = [];
  const add = (node: ts.Node, target: ts.Node | undefined, typeOnly: boolean, dynamic = false): void => {
    const specifier = target && ts.isStringLiteralLike(target) ? target.text : undefined;
    imports.push({ node, specifier, typeOnly, dynamic });
  };
  const visit = (node: ts.Node): void => {
    // `import { type X }` still loads the module at run time.
    if (ts.isImportDeclaration(node))
      add(node, node.moduleSpecifier, node.importClause?.phaseModifier === ts.SyntaxKind.TypeKeyword);
    else if (ts.isExportDeclaration(node) && node.moduleSpecifier) add(node, node.moduleSpecifier, node.isTypeOnly);
    else if (ts.isImportTypeNode(node) && ts.isLiteralTypeNode(node.argument)) add(node, node.argument.literal, true);
    else if (ts.isCallExpression(node) && node.expression.kind === ts.SyntaxKind.ImportKeyword)
      add(node, node.arguments[0], false, true);
    ts.forEachChild(node, visit);
  };
  visit(parse(path, text));
  return imports;
}

/** The CEL interpreter registers classes as types. */
const CLASSES = 'dev-cluster/cel.ts';

function findSyntaxViolations(path: string, text: string): readonly string[] {
  const violations: string[] = [];
  const isPure = layerIndex(findPart(path) ?? '') < PURE_LAYERS;
  const add = (node: ts.Node, violation: string): void => void violations.push(`${location(path, node)}: ${violation}`);
  const visit = (node: ts.Node): void => {
    if (ts.isClassLike(node) && path !== CLASSES && !node.heritageClauses?.some(extendsError)) {
      add(node, 'declares a class that is not an error');
    }
    if (isPure && ts.canHaveModifiers(node) && node.modifiers?.some(isAsync)) {
      add(node, 'has an asynchronous function, but its layer is pure');
    }
    if (isPure && ts.isNewExpression(node) && node.expression.getText() === 'Date' && node.arguments?.length === 0) {
      add(node, 'reads the clock, but its layer is pure');
    }
    ts.forEachChild(node, visit);
  };
  const file = parse(path, text);
  visit(file);
  // Sorting the imports would move the description of the file unless an empty line follows it.
  const description = text.search(DESCRIBED_IMPORT);
  if (description > 0) {
    const { line } = file.getLineAndCharacterOfPosition(description);
    violations.push(`src/${path}:${line + 1}: has its description below an import`);
  }
  return violations;
}

/** Matches a doc comment directly above an import. */
const DESCRIBED_IMPORT = /^\/\*\*(?:(?!\*\/)[^])*\*\/\nimport /m;

function extendsError({ types }: ts.HeritageClause): boolean {
  return types.some(({ expression }) => expression.getText().endsWith('Error'));
}

function isAsync({ kind }: ts.ModifierLike): boolean {
  return kind === ts.SyntaxKind.AsyncKeyword;
}

function importViolations(sources: Sources, path: string, { specifier, typeOnly }: Import): string[] {
  if (specifier === undefined) return ['imports a computed specifier'];
  if (specifier.startsWith('.')) return fileViolations(sources, path, specifier);
  const isPure = layerIndex(findPart(path) ?? '') < PURE_LAYERS;
  if (specifier.startsWith('node:')) {
    if (findPart(path) === 'web') return [`imports ${specifier}, but browsers have no Node modules`];
    return isPure ? [`imports ${specifier}, but its layer is pure`] : [];
  }
  return packageViolations(path, specifier, isPure, typeOnly);
}

function fileViolations(sources: Sources, path: string, specifier: string): string[] {
  const target = joinPosix(dirname(path), specifier);
  if (target === MANIFEST.path && path === MANIFEST.importer) return [];
  const text = sources.get(target);
  if (text === undefined) return [`imports ${specifier}, which is not a file of src/`];
  if (/[=\n] +(?:return )?defineCommand\(/.test(text) && path !== COMMAND_TREE) {
    return [`imports src/${target}, which is a command`];
  }
  const [folder, imported] = [cliFolder(path), cliFolder(target)];
  if (folder !== undefined && imported !== undefined && !isSharedFolder(imported, folder) && path !== COMMAND_TREE) {
    return [`imports src/${target}: cli/${folder} may not import from cli/${imported}`];
  }
  const [from, to] = [findPart(path), findPart(target)];
  if (from === undefined || to === undefined || from === to) return [];
  if (layerIndex(to) >= layerIndex(from)) return [`imports src/${target}: ${from} may not import from ${to}`];
  const isPublic = PUBLIC_FILES[to]?.split(/\s+/).includes(target.slice(to.length + 1).replace(/\.ts$/, '')) ?? true;
  return isPublic ? [] : [`imports src/${target}, which is private to ${to}`];
}

/** Returns the folder of a command line file. An empty string means `cli` itself. */
function cliFolder(path: string): string | undefined {
  return /^cli\/(?:([^/]+)\/)?/.exec(path)?.slice(1).join('');
}

function isSharedFolder(folder: string, importer: string): boolean {
  if (folder === importer) return true;
  const [index = 0, limit = 0] = [folder, importer].map((one) => SHARED_FOLDERS.indexOf(one));
  // Formats are command options, so `output` and the files of `cli` import each other.
  return index >= 0 && (limit < 0 || index < limit || (importer === '' && folder === 'output'));
}

function packageViolations(path: string, specifier: string, isPure: boolean, typeOnly: boolean): string[] {
  const [scope = '', rest = ''] = specifier.split('/');
  const name = scope.startsWith('@') ? `${scope}/${rest}` : scope;
  if (typeOnly && name === TYPES_PACKAGE) return [];
  if (isPure) return [`imports ${name}, but its layer is pure`];
  const importers = PACKAGE_IMPORTERS.get(name) ?? PACKAGE_IMPORTERS.get(scope) ?? [];
  return importers.some((one) => path === one || (one.endsWith('/') && path.startsWith(one)))
    ? []
    : [
        `imports ${name}, which ${importers.length === 0 ? 'no file' : `only ${importers.map((one) => `src/${one}`).join(' and ')}`} may import`,
      ];
}

/** Returns the files in `PUBLIC_FILES` that no other part imports. */
function findUnusedPublicFiles(sources: Sources): string[] {
  const imported = new Set(
    [...sources].flatMap(([path, text]) =>
      findImports(path, text).flatMap(({ specifier = '' }) => {
        const target = joinPosix(dirname(path), specifier);
        return findPart(target) === findPart(path) ? [] : [target];
      }),
    ),
  );
  return Object.entries(PUBLIC_FILES).flatMap(([part, files]) =>
    files
      .split(/\s+/)
      .map((file) => `${part}/${file}.ts`)
      .filter((path) => !imported.has(path))
      .map((path) => `src/${path}:1: is in PUBLIC_FILES, but no other part imports it`),
  );
}

/** Returns the import cycles, including those of type imports. */
function findCycles(sources: Sources): string[][] {
  const imports = new Map(
    [...sources].map(([path, text]) => {
      const files = findImports(path, text).map(({ specifier = '' }) => joinPosix(dirname(path), specifier));
      return [path, files.filter((imported) => sources.has(imported))];
    }),
  );
  const reached = (start: string): ReadonlySet<string> => {
    const found = new Set<string>();
    const queue = [start];
    for (let path = queue.pop(); path !== undefined; path = queue.pop()) {
      const added = (imports.get(path) ?? []).filter((imported) => !found.has(imported));
      for (const one of added) found.add(one);
      queue.push(...added);
    }
    return found;
  };
  const reachable = new Map([...sources.keys()].map((path) => [path, reached(path)]));
  const inCircle = [...reachable].filter(([path, found]) => found.has(path)).map(([path]) => path);
  const circles = inCircle.map((path) =>
    inCircle.filter((other) => reachable.get(path)?.has(other) && reachable.get(other)?.has(path)),
  );
  return circles.filter((circle, index) => circle[0] === inCircle[index]);
}

/** The entry points of the package, whose exports other packages import. */
const LIBRARY = Object.values(manifest.exports).flatMap((entry) =>
  typeof entry === 'string' ? [] : entry.types.replace(/^.*types\//, '').replace(/d\.ts$/, 'ts'),
);

/** Returns the exports that no other source file imports. The paths are relative to src/. */
function findUnusedExports(sources: Sources, others: Sources): string[] {
  const used = new Set<string>();
  for (const [path, text] of [...sources, ...others]) {
    if (/tsx?$/.test(path)) addImportedNames(path, parse(path, text), used);
  }
  return [...sources].flatMap(([path, text]) => {
    const isUsed = LIBRARY.includes(path) || !/tsx?$/.test(path) || used.has(`src/${path} *`);
    const names = isUsed ? [] : exportedNames(parse(path, text));
    const unused = names.filter((name) => !used.has(`src/${path} ${name.text}`));
    return unused.map((name) => `${location(path, name)}: no file imports ${name.text}`);
  });
}

/** Adds `src/path name` for each imported name. The name is `*` for an import of the whole module. */
function addImportedNames(path: string, file: ts.SourceFile, used: Set<string>): void {
  const add = (specifier: ts.Node | undefined, name: string): void => {
    if (specifier && ts.isStringLiteralLike(specifier))
      used.add(`${joinPosix('src', dirname(path), specifier.text)} ${name}`);
  };
  const visit = (node: ts.Node): void => {
    if (ts.isImportSpecifier(node))
      add(node.parent.parent.parent.moduleSpecifier, (node.propertyName ?? node.name).text);
    else if (ts.isNamespaceImport(node)) add(node.parent.parent.moduleSpecifier, '*');
    else if (ts.isExportSpecifier(node)) add(node.parent.parent.moduleSpecifier, (node.propertyName ?? node.name).text);
    else if (ts.isExportDeclaration(node) && !node.exportClause) add(node.moduleSpecifier, '*');
    else if (ts.isImportTypeNode(node) && ts.isLiteralTypeNode(node.argument))
      add(node.argument.literal, node.qualifier?.getText() ?? '*');
    else if (ts.isCallExpression(node) && node.expression.kind === ts.SyntaxKind.ImportKeyword) {
      let user: ts.Node = node.parent;
      while (ts.isAwaitExpression(user) || ts.isParenthesizedExpression(user)) user = user.parent;
      if (ts.isPropertyAccessExpression(user)) add(node.arguments[0], user.name.text);
      else if (ts.isVariableDeclaration(user) && ts.isObjectBindingPattern(user.name))
        for (const { propertyName, name } of user.name.elements)
          add(node.arguments[0], (propertyName ?? name).getText());
      else add(node.arguments[0], '*');
    }
    ts.forEachChild(node, visit);
  };
  visit(file);
}

function exportedNames(file: ts.SourceFile): ts.Identifier[] {
  return file.statements.flatMap((statement) => {
    if (ts.isExportDeclaration(statement))
      return statement.exportClause && ts.isNamedExports(statement.exportClause)
        ? statement.exportClause.elements.flatMap(({ name }) => (ts.isIdentifier(name) ? [name] : []))
        : [];
    const modifiers = ts.canHaveModifiers(statement) ? (statement.modifiers ?? []) : [];
    if (!modifiers.some(({ kind }) => kind === ts.SyntaxKind.ExportKeyword)) return [];
    const declarations = ts.isVariableStatement(statement) ? statement.declarationList.declarations : [statement];
    return declarations.flatMap((one) => ('name' in one ? declaredNames(one.name) : []));
  });
}

function declaredNames(name: ts.BindingName): ts.Identifier[] {
  if (ts.isIdentifier(name)) return [name];
  return name.elements.flatMap((element) => (ts.isBindingElement(element) ? declaredNames(element.name) : []));
}

function readSources(folder: string): Map<string, string> {
  const paths = readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .filter((path) => /\.(tsx?|json|css)$/.test(path))
    .sort();
  return new Map(paths.map((path) => [path, /\.tsx?$/.test(path) ? readFileSync(join(folder, path), 'utf8') : '']));
}

test('the source files follow the rules for imports and exports', () => {
  const sources = readSources('src');
  const others = ['test', 'bench', 'scripts'].flatMap((folder) =>
    [...readSources(folder)].map(([path, text]) => [joinPosix('..', folder, path), text] as const),
  );
  const problems = [
    ...findViolations(sources),
    ...findCycles(sources).map(
      ([first = '', ...rest]) => `src/${first}:1: is in an import cycle with ${rest.join(', ')}`,
    ),
    ...findUnusedExports(sources, new Map(others)),
    ...findPrivateImports(new Map(others)),
    ...findUnusedPublicFiles(sources),
  ];
  assert.ok(problems.length === 0, `\n${problems.join('\n')}`);

  // The program does not import the development cluster statically.
  const loaded = new Set(['main.ts']);
  for (const path of loaded) {
    for (const { specifier = '', typeOnly, dynamic } of findImports(path, sources.get(path) ?? '')) {
      const target = joinPosix(dirname(path), specifier);
      const isDevCluster = target.startsWith('dev-cluster/');
      if (!typeOnly && sources.has(target) && !(dynamic && isDevCluster)) loaded.add(target);
    }
  }
  assert.ok(loaded.has('cli/serve/dev-cluster.ts'));
  assert.deepEqual(
    [...loaded].filter((path) => path.startsWith('dev-cluster/')),
    [],
  );
});

/** Returns the imports of private files of `policy` in the tests of other parts. */
function findPrivateImports(tests: Sources): string[] {
  return [...tests].flatMap(([path, text]) =>
    findImports(path, text).flatMap(({ node, specifier = '' }) => {
      const [, part = '', file = ''] =
        /^\.\.\/src\/(policy\/[^/]+)\/(.+)$/.exec(joinPosix(dirname(path), specifier)) ?? [];
      const isAllowed = part === '' || path.startsWith(`../test/${part}/`) || /^(?:index|library)\.ts$/.test(file);
      return isAllowed ? [] : [`${location(path, node)}: imports src/${part}/${file}, which is private to ${part}`];
    }),
  );
}

test('findPrivateImports finds imports of private files in tests', () => {
  const imports = ['index.ts', 'library.ts', 'checks/index.ts'].map((file) => `'../../../src/policy/pss/${file}';`);
  const text = imports.map((from) => `import { x } from ${from}`).join('\n');
  const tests = new Map(['pss', 'psa'].map((part) => [`../test/policy/${part}/a.test.ts`, text]));
  assert.deepEqual(findPrivateImports(tests), [
    'test/policy/psa/a.test.ts:3: imports src/policy/pss/checks/index.ts, which is private to policy/pss',
  ]);
});

test('findCycles finds an import cycle', () => {
  const sources = new Map([
    ['kube/a.ts', "import { b } from './b.ts';"],
    ['kube/b.ts', "import type { C } from './c.ts';"],
    ['kube/c.ts', "export { a } from './a.ts';"],
    ['kube/d.ts', "import { a } from './a.ts';"],
  ]);
  assert.deepEqual(findCycles(sources), [['kube/a.ts', 'kube/b.ts', 'kube/c.ts']]);
});

test('findUnusedExports finds exports that no file imports', () => {
  const sources = new Map([
    ['kube/a.ts', 'export const a = 1; export interface B {} export function c() {} export { d } from "./b.ts";'],
    ['kube/b.ts', "import type { B } from './a.ts'; export const d = (await import('./c.ts')).e;"],
    ['kube/c.ts', 'export const e = 1; export type F = string;'],
    ['policy/pss/library.ts', 'export type G = string;'],
  ]);
  const others = new Map([['../test/a.ts', "import { c } from '../src/kube/a.ts'"]]);
  assert.deepEqual(findUnusedExports(sources, others), [
    'src/kube/a.ts:1: no file imports a',
    'src/kube/a.ts:1: no file imports d',
    'src/kube/c.ts:1: no file imports F',
  ]);
});

/** Source texts, and their violations in line 1 unless a line is specified. */
const CASES: readonly (readonly [path: string, text: string, ...violations: string[]])[] = [
  ['server/a.ts', `import { x } from './psa.ts'; import { y } from '../kube/types.ts';`],
  ['kube/a.ts', `import type { V1Pod } from '@kubernetes/client-node';`],
  ['cli/program.ts', `const x = () => import('./scc/command.ts');`],
  [
    'kube/a.ts',
    `export type X = import('../cluster/store.ts').Store;`,
    'imports src/cluster/store.ts: kube may not import from cluster',
  ],
  [
    'server/a.ts',
    `export * from '../dev-cluster/types.ts';`,
    'imports src/dev-cluster/types.ts: server may not import from dev-cluster',
  ],
  [
    'cli/a.ts',
    `const x = () => import('../dev-cluster/types.ts');`,
    'imports src/dev-cluster/types.ts, which is private to dev-cluster',
  ],
  ['cli/a.ts', `const x = (name: string) => import(name);`, 'imports a computed specifier'],
  ['cli/a.ts', `import x from '../../package.json';`, 'imports ../../package.json, which is not a file of src/'],
  ['cli/a.ts', `import { x } from './scc/command.ts';`, 'imports src/cli/scc/command.ts, which is a command'],
  [
    'cli/inventory/a.ts',
    `import { x } from '../options.ts'; import { x } from '../scc/shared.ts';`,
    'imports src/cli/scc/shared.ts: cli/inventory may not import from cli/scc',
  ],
  ['cli/scc/a.ts', `import { x } from '../inventory/a.ts'; import { x } from './shared.ts';`],
  ['policy/new/a.ts', '', 'its folder is in no layer'],
  ['cli/a.ts', `import type { X } from '@scope/name/part';`, 'imports @scope/name, which no file may import'],
  [
    'config/a.ts',
    `import { Ajv } from 'ajv/dist/2020.js';`,
    'imports ajv, which only src/config/ajv.ts and src/dev-cluster/objects/custom-resources.ts may import',
  ],
  [
    'kube/a.ts',
    `import { type V1Pod } from '@kubernetes/client-node'; import { join } from 'node:path';`,
    'imports @kubernetes/client-node, but its layer is pure',
    'imports node:path, but its layer is pure',
  ],
  ['web/a.tsx', `import { join } from 'node:path';`, 'imports node:path, but browsers have no Node modules'],
  ['cluster/a.ts', 'export class A extends TypeError {} async () => new Date();'],
  ['cluster/a.ts', 'export class A extends Map {}', 'declares a class that is not an error'],
  ['kube/a.ts', 'const x = async () => {};', 'has an asynchronous function, but its layer is pure'],
  [
    'kube/a.ts',
    "import { b } from './types.ts';\n/** A. */\nimport { c } from './types.ts';",
    '2: has its description below an import',
  ],
  ['policy/psa/a.ts', 'const x = [new Date(), new Date(0)];', 'reads the clock, but its layer is pure'],
];

test('findViolations finds each kind of violation, with its file and line', () => {
  const files = [
    ...['kube/types.ts', 'cluster/store.ts', 'dev-cluster/types.ts', 'server/psa.ts'],
    ...['cli/options.ts', 'cli/inventory/a.ts', 'cli/scc/shared.ts'],
  ];
  const command = ['cli/scc/command.ts', 'export const command = defineCommand({});'] as const;
  for (const [path, text, ...violations] of CASES) {
    assert.deepEqual(
      findViolations(new Map([...files.map((file) => [file, ''] as const), command, [path, text] as const])),
      violations.map((violation) => `src/${path}:${/^\d/.test(violation) ? violation : `1: ${violation}`}`),
    );
  }
});
