/** The imports between the parts of src/, and rules of style that ESLint does not check. */
import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { dirname, join as joinPosix } from 'node:path/posix';
import { describe, test } from 'node:test';
import ts from 'typescript';

/** The text of each source file by its path below src/. */
type Sources = ReadonlyMap<string, string>;

/** A file may import from its own part and from the layers before its layer. */
const LAYERS: readonly (readonly string[])[] = [
  ['kube'],
  ['policy/pod'],
  ['policy/pss', 'policy/scc', 'policy/rbac', 'policy/uid-range', 'policy/kubelet', 'policy/olm'],
  ['policy/psa'],
  ['policy/rollout'],
  ['telemetry'],
  ['config', 'tls'],
  ['cluster'],
  ['web'],
  ['dev-cluster', 'server', 'controllers'],
  ['install'],
  ['cli'],
  ['main.ts'],
];

/** Layers before this index are pure: synchronous, without clock, I/O and packages. */
const PURE_LAYERS = 5;

/** The files of a part that other parts may import. All others are private. Every file of `kube` is public. */
const PUBLIC_FILES: ReadonlyMap<string, readonly string[]> = new Map([
  ['policy/pod', ['pod.ts', 'reader.ts', 'repair.ts', 'safe-sysctls.ts', 'selection.ts', 'templates.ts']],
  ['policy/pss', ['cel.ts', 'cel-policy.ts', 'evaluate.ts', 'index.ts', 'policy.ts']],
  [
    'policy/psa',
    [
      'admission-policies.ts',
      'configuration.ts',
      'decision.ts',
      'decode.ts',
      'defaults.ts',
      'input.ts',
      'policy.ts',
      'review.ts',
    ],
  ],
  [
    'policy/scc',
    [
      'access.ts',
      'advice/denials.ts',
      'advice/explain.ts',
      'advice/plan.ts',
      'advice/pod-audit.ts',
      'advice/scc-warnings.ts',
      'advice/suggestion.ts',
      'assign.ts',
      'decision.ts',
      'mode.ts',
      'namespace.ts',
      'objects.ts',
      'order.ts',
      'request.ts',
      'review.ts',
      'scc-fields.ts',
      'scc.ts',
      'standard.ts',
      'strategies/index.ts',
    ],
  ],
  ['policy/rbac', ['authorizer.ts', 'index.ts', 'rules.ts', 'who-can.ts']],
  ['policy/uid-range', ['allocation.ts', 'blocks.ts', 'ranges.ts']],
  [
    'policy/kubelet',
    ['admission.ts', 'authorizer.ts', 'enforcement.ts', 'feature-gates.ts', 'transition.ts', 'version.ts'],
  ],
  [
    'policy/olm',
    ['auto-labeler.ts', 'catalog-source.ts', 'hardening.ts', 'namespaces.ts', 'objects.ts', 'recognition.ts'],
  ],
  [
    'policy/rollout',
    [
      'affected-namespaces.ts',
      'enforcement.ts',
      'evaluation.ts',
      'label-sync.ts',
      'observed-config.ts',
      'plan.ts',
      'preview.ts',
      'readiness.ts',
      'relaxation.ts',
      'reports.ts',
      'scc-level.ts',
      'settings.ts',
      'simulation.ts',
      'state.ts',
      'user-namespace-audit.ts',
    ],
  ],
  ['telemetry', ['counters.ts', 'logger.ts', 'metrics.ts']],
  [
    'config',
    [
      'ajv.ts',
      'configuration.ts',
      'files.ts',
      'fix.ts',
      'manifests.ts',
      'objects.ts',
      'portcullis-configuration.ts',
      'rewrite.ts',
      'setting-paths.ts',
      'settings.ts',
      'yaml.ts',
    ],
  ],
  ['tls', ['certificate-pair.ts', 'files.ts', 'issue.ts', 'keyring.ts', 'protocol.ts', 'trust.ts']],
  [
    'cluster',
    [
      'access.ts',
      'clock.ts',
      'client.ts',
      'cluster-source.ts',
      'cluster.ts',
      'connection.ts',
      'event-recorder.ts',
      'exemptions.ts',
      'kubelet.ts',
      'lists.ts',
      'live-cluster.ts',
      'network-error.ts',
      'rollout.ts',
      'scc-grants.ts',
      'server-version.ts',
      'store.ts',
      'workload-events.ts',
      'workloads.ts',
    ],
  ],
  ['web', ['report-data.ts']],
  ['dev-cluster', ['index.ts']],
  [
    'server',
    [
      'access-reviews.ts',
      'dashboard.ts',
      'denial-events.ts',
      'probes.ts',
      'scc-health.ts',
      'server.ts',
      'webhook.ts',
      'webhooks/index.ts',
    ],
  ],
  [
    'controllers',
    [
      'admission-policies.ts',
      'controller.ts',
      'index.ts',
      'leadership.ts',
      'readiness-evaluator.ts',
      'replica-leases.ts',
      'replica.ts',
      'runtime.ts',
      'standard-sccs.ts',
      'webhook-configurations.ts',
    ],
  ],
  ['install', ['index.ts', 'settings.ts']],
]);

/** The folders and files that may import a package. */
const PACKAGE_IMPORTERS: ReadonlyMap<string, readonly string[]> = new Map([
  ['fastify', ['server/', 'dev-cluster/server.ts']],
  ['node-forge', ['tls/']],
  ['commander', ['cli/program.ts']],
  ['pino', ['telemetry/']],
  ['prom-client', ['telemetry/']],
  ['ajv', ['config/ajv.ts', 'dev-cluster/objects/custom-resources.ts']],
  ['diff', ['cli/output/diff.ts']],
  ['yaml', ['config/node-changes.ts', 'config/rewrite.ts', 'config/yaml-layout.ts', 'config/yaml.ts']],
  ['esbuild', ['cli/output/bundle.ts']],
  ['preact', ['web/']],
  ['@codemirror/commands', ['web/editor.ts']],
  ['@codemirror/lang-yaml', ['web/editor.ts']],
  ['@codemirror/language', ['web/editor.ts']],
  ['@codemirror/lint', ['web/editor.ts']],
  ['@codemirror/state', ['web/editor.ts']],
  ['@codemirror/view', ['web/editor.ts']],
  ['@lezer/highlight', ['web/editor.ts']],
  ['rfc6902', ['dev-cluster/json-patch.ts']],
  ['@marcbachmann/cel-js', ['dev-cluster/']],
  ['@kubernetes/client-node', ['cluster/', 'cli/check/fields.ts']],
]);

/** The package of Kubernetes API types. Every file may import its types. */
const TYPES_PACKAGE = '@kubernetes/client-node';

/** The file that may import commands: the command tree. */
const COMMAND_TREE = 'cli/program.ts';

/** The manifest of the package, and the file that may import it. */
const MANIFEST = { path: '../package.json', importer: 'cli/command.ts' };

/** Globals with a clock, random values or I/O. Pure layers must not use them. */
const IMPURE: ReadonlySet<string> = new Set([
  'Promise',
  'console',
  'crypto',
  'fetch',
  'performance',
  'process',
  'queueMicrotask',
  'setImmediate',
  'setInterval',
  'setTimeout',
]);

/** Returns one line for each violation, in the order of the files. */
function findViolations(sources: Sources): string[] {
  return [...sources].flatMap(([path, text]) => {
    const file = ts.createSourceFile(path, text, ts.ScriptTarget.Latest, true);
    const part = findPart(path);
    if (part === undefined) return [`src/${path}: its folder is in no layer`];
    const pure = layerIndex(part) < PURE_LAYERS;
    return [
      ...findImports(file).flatMap((imported) => importViolations(sources, path, imported)),
      ...listNodes(file).flatMap((node) => [...styleViolations(path, node), ...(pure ? purityViolations(node) : [])]),
    ].map((violation) => `src/${path}: ${violation}`);
  });
}

/**
 * Returns the part of a file: the longest folder name in the layers that contains it. A part that contains other parts
 * consists only of the files directly in its folder.
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

interface Import {
  /** `undefined` for a computed specifier. */
  readonly specifier: string | undefined;
  /** True if the import is erased at run time. */
  readonly typeOnly: boolean;
}

function findImports(file: ts.SourceFile): Import[] {
  return listNodes(file).flatMap((node): Import[] => {
    if (ts.isImportDeclaration(node)) {
      // `import { type X }` still loads the module.
      return [imported(node.moduleSpecifier, node.importClause?.phaseModifier === ts.SyntaxKind.TypeKeyword)];
    }
    if (ts.isExportDeclaration(node) && node.moduleSpecifier) return [imported(node.moduleSpecifier, node.isTypeOnly)];
    if (ts.isImportTypeNode(node) && ts.isLiteralTypeNode(node.argument))
      return [imported(node.argument.literal, true)];
    if (ts.isCallExpression(node) && node.expression.kind === ts.SyntaxKind.ImportKeyword) {
      return [imported(node.arguments[0], false)];
    }
    return [];
  });
}

function imported(specifier: ts.Node | undefined, typeOnly: boolean): Import {
  return { specifier: specifier && ts.isStringLiteralLike(specifier) ? specifier.text : undefined, typeOnly };
}

function importViolations(sources: Sources, path: string, { specifier, typeOnly }: Import): string[] {
  if (specifier === undefined) return ['imports a computed specifier'];
  if (specifier.startsWith('.')) return fileViolations(sources, path, specifier);
  const isPure = layerIndex(findPart(path) ?? '') < PURE_LAYERS;
  if (specifier.startsWith('node:')) {
    if (findPart(path) === 'web') return [`imports ${specifier}, but browsers have no Node modules`];
    return isPure ? [`imports ${specifier}, but its layer is pure`] : [];
  }
  return packageViolations(path, packageName(specifier), isPure, typeOnly);
}

function fileViolations(sources: Sources, path: string, specifier: string): string[] {
  const target = joinPosix(dirname(path), specifier);
  if (target === MANIFEST.path && path === MANIFEST.importer) return [];
  const text = sources.get(target);
  if (text === undefined) return [`imports ${specifier}, which is not a file of src/`];
  if (/[=\n] +(?:return )?defineCommand\(/.test(text) && path !== COMMAND_TREE) {
    return [`imports src/${target}, which is a command`];
  }
  const [from, to] = [findPart(path), findPart(target)];
  if (from === undefined || to === undefined || from === to) return [];
  if (layerIndex(to) >= layerIndex(from)) return [`imports src/${target}: ${from} may not import from ${to}`];
  const isPublic = PUBLIC_FILES.get(to)?.includes(target.slice(to.length + 1)) ?? true;
  return isPublic ? [] : [`imports src/${target}, which is private to ${to}`];
}

function packageViolations(path: string, name: string, isPure: boolean, typeOnly: boolean): string[] {
  if (typeOnly && name === TYPES_PACKAGE) return [];
  if (isPure) return [`imports ${name}, but its layer is pure`];
  const importers = PACKAGE_IMPORTERS.get(name);
  if (!importers) return [`imports ${name}, which no file may import`];
  return importers.some((one) => path === one || (one.endsWith('/') && path.startsWith(one)))
    ? []
    : [`imports ${name}, which only ${importers.map((importer) => `src/${importer}`).join(' and ')} may import`];
}

function packageName(specifier: string): string {
  return specifier
    .split('/')
    .slice(0, specifier.startsWith('@') ? 2 : 1)
    .join('/');
}

function styleViolations(path: string, node: ts.Node): string[] {
  if (ts.isEnumDeclaration(node)) return [`has an enum, ${node.name.text}`];
  if (isDefaultExport(node)) return ['has a default export'];
  // The interpreter of CEL registers classes as types.
  if (ts.isClassDeclaration(node) && !isErrorClass(node) && path !== 'dev-cluster/cel.ts')
    return [`has a class that is not an error, ${node.name?.text}`];
  if (ts.isPropertyAccessExpression(node) && node.expression.getText() === 'process') {
    if (node.name.text === 'exit') return ['calls process.exit'];
    if (node.name.text === 'env' && !path.startsWith('cli/') && path !== 'main.ts') return ['reads process.env'];
  }
  return [];
}

function isDefaultExport(node: ts.Node): boolean {
  if (ts.isExportAssignment(node)) return true;
  if (ts.isExportSpecifier(node)) return node.name.text === 'default';
  const modifiers = ts.canHaveModifiers(node) ? ts.getModifiers(node) : [];
  return modifiers?.some((modifier) => modifier.kind === ts.SyntaxKind.DefaultKeyword) ?? false;
}

function isErrorClass(node: ts.ClassDeclaration): boolean {
  return node.heritageClauses?.some((clause) => /^extends \w*Error$/.test(clause.getText())) ?? false;
}

function purityViolations(node: ts.Node): string[] {
  if (node.kind === ts.SyntaxKind.AsyncKeyword || ts.isAwaitExpression(node))
    return ['is asynchronous, but its layer is pure'];
  if (ts.isNewExpression(node) && node.expression.getText() === 'Date' && (node.arguments ?? []).length === 0) {
    return ['reads the clock, but its layer is pure'];
  }
  if (!ts.isPropertyAccessExpression(node)) return isFreeName(node) && IMPURE.has(node.text) ? [impure(node.text)] : [];
  const text = node.getText();
  return text === 'Date.now' || text === 'Math.random' ? [impure(text)] : [];
}

function impure(name: string): string {
  return `uses ${name}, but its layer is pure`;
}

/** Returns true for a referenced name that is not the name of a member or declaration. */
function isFreeName(node: ts.Node): node is ts.Identifier {
  if (!ts.isIdentifier(node)) return false;
  const { parent } = node;
  if (ts.isPropertyAccessExpression(parent)) return parent.expression === node;
  return ts.isCallExpression(parent) || ts.isNewExpression(parent) || ts.isTypeReferenceNode(parent);
}

function listNodes(root: ts.Node): ts.Node[] {
  const nodes: ts.Node[] = [];
  const visit = (node: ts.Node): void => {
    nodes.push(node);
    // getChildren() includes keywords, forEachChild() does not.
    for (const child of node.getChildren()) visit(child);
  };
  visit(root);
  return nodes;
}

/** Returns the groups of files that import each other, types included. */
function findCircles(sources: Sources): string[][] {
  const imports = new Map(
    [...sources].map(([path, text]) => {
      const file = ts.createSourceFile(path, text, ts.ScriptTarget.Latest, true);
      const files = findImports(file).map(({ specifier = '' }) => joinPosix(dirname(path), specifier));
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

test('a circle of imports is found', () => {
  const sources = new Map([
    ['kube/a.ts', "import { b } from './b.ts';"],
    ['kube/b.ts', "import type { C } from './c.ts';"],
    ['kube/c.ts', "export { a } from './a.ts';"],
    ['kube/d.ts', "import { a } from './a.ts';"],
  ]);
  assert.deepEqual(findCircles(sources), [['kube/a.ts', 'kube/b.ts', 'kube/c.ts']]);
});

test('the sources have no violations', () => {
  const paths = readdirSync('src', { recursive: true, encoding: 'utf8' }).filter((path) =>
    /\.(tsx?|json|css)$/.test(path),
  );
  const sources = new Map(
    paths.sort().map((path) => [path, path.endsWith('.css') ? '' : readFileSync(join('src', path), 'utf8')]),
  );
  assert.ok(sources.has('main.ts'));
  assert.deepEqual(findViolations(sources), []);
  assert.deepEqual(findCircles(sources), []);
});

describe('violations', () => {
  const cases: readonly (readonly [name: string, path: string, text: string, ...violations: string[]])[] = [
    ['own folder', 'server/a.ts', `import { x } from './psa.ts';`],
    ['an earlier layer', 'server/a.ts', `import { x } from '../kube/types.ts';`],
    ['main.ts', 'main.ts', `import { x } from './cli/main.ts';`],
    ['a folder of the same part', 'dev-cluster/admission/a.ts', `import { x } from '../types.ts';`],
    [
      'a later layer',
      'kube/a.ts',
      `import { x } from '../cluster/store.ts';`,
      'imports src/cluster/store.ts: kube may not import from cluster',
    ],
    [
      'another part of the same layer',
      'server/a.ts',
      `import { x } from '../dev-cluster/types.ts';`,
      'imports src/dev-cluster/types.ts: server may not import from dev-cluster',
    ],
    [
      'the development cluster from an earlier layer',
      'cluster/a.ts',
      `import { x } from '../dev-cluster/types.ts';`,
      'imports src/dev-cluster/types.ts: cluster may not import from dev-cluster',
    ],
    [
      'a private file of another part',
      'cli/a.ts',
      `import { x } from '../dev-cluster/types.ts';`,
      'imports src/dev-cluster/types.ts, which is private to dev-cluster',
    ],
    [
      'a type import',
      'policy/psa/a.ts',
      `import type { X } from '../../server/psa.ts';`,
      'imports src/server/psa.ts: policy/psa may not import from server',
    ],
    [
      'an inline type import',
      'kube/a.ts',
      `export type X = import('../cluster/store.ts').Store;`,
      'imports src/cluster/store.ts: kube may not import from cluster',
    ],
    [
      'a re-export',
      'kube/a.ts',
      `export * from '../cluster/store.ts';`,
      'imports src/cluster/store.ts: kube may not import from cluster',
    ],
    [
      'a dynamic import',
      'server/a.ts',
      `const x = () => import('../cli/main.ts');`,
      'imports src/cli/main.ts: server may not import from cli',
    ],
    ['a computed import', 'cli/a.ts', `const x = (name: string) => import(name);`, 'imports a computed specifier'],
    [
      'a file outside of src',
      'cli/a.ts',
      `import x from '../../package.json';`,
      'imports ../../package.json, which is not a file of src/',
    ],
    [
      'a command',
      'cli/a.ts',
      `import { x } from './scc/command.ts';`,
      'imports src/cli/scc/command.ts, which is a command',
    ],
    ['a command in the command tree', 'cli/program.ts', `const x = () => import('./scc/command.ts');`],
    ['a new folder', 'utils/a.ts', '', 'its folder is in no layer'],
    ['a new folder next to parts', 'policy/new/a.ts', '', 'its folder is in no layer'],
    ['a new file in src', 'a.ts', '', 'its folder is in no layer'],
    [
      'a package in another folder',
      'cli/a.ts',
      `import Fastify from 'fastify';`,
      'imports fastify, which only src/server/ and src/dev-cluster/server.ts may import',
    ],
    [
      'a module of a package in another folder',
      'config/a.ts',
      `import { Ajv } from 'ajv/dist/2020.js';`,
      'imports ajv, which only src/config/ajv.ts and src/dev-cluster/objects/custom-resources.ts may import',
    ],
    [
      'a new package',
      'cli/a.ts',
      `import type { X } from '@scope/name/part';`,
      'imports @scope/name, which no file may import',
    ],
    ['the types of client-node', 'kube/a.ts', `import type { V1Pod } from '@kubernetes/client-node';`],
    [
      'client-node at run time',
      'kube/a.ts',
      `import { type V1Pod } from '@kubernetes/client-node';`,
      'imports @kubernetes/client-node, but its layer is pure',
    ],
    [
      'a Node module in a pure layer',
      'policy/pss/a.ts',
      `import { join } from 'node:path';`,
      'imports node:path, but its layer is pure',
    ],
    [
      'a Node module in a page',
      'web/a.tsx',
      `import { join } from 'node:path';`,
      'imports node:path, but browsers have no Node modules',
    ],
    [
      'an async function in a pure layer',
      'policy/pss/a.ts',
      `export const x = async () => 1;`,
      'is asynchronous, but its layer is pure',
    ],
    [
      'the clock in a pure layer',
      'policy/pss/a.ts',
      `export const x = [new Date(), Date.now(), new Date(0)];`,
      'reads the clock, but its layer is pure',
      'uses Date.now, but its layer is pure',
    ],
    ['the console in a pure layer', 'policy/pss/a.ts', `console.log(1);`, 'uses console, but its layer is pure'],
    [
      'a member with the name of a global',
      'policy/pss/a.ts',
      `export const x = (pod: { process: { env: 1 } }) => pod.process.env;`,
    ],
    ['process.env', 'server/a.ts', `export const x = process.env['X'];`, 'reads process.env'],
    ['process.env in cli', 'cli/a.ts', `export const x = process.env['X'];`],
    ['process.exit', 'cli/a.ts', `process.exit(1);`, 'calls process.exit'],
    ['a default export', 'cli/a.ts', `export default function x() {}`, 'has a default export'],
    ['a default export of a value', 'cli/a.ts', `const x = 1; export default x;`, 'has a default export'],
    ['a named default export', 'cli/a.ts', `const x = 1; export { x as default };`, 'has a default export'],
    ['a default branch', 'cli/a.ts', `switch (1 as number) { default: break; }`],
    ['an enum', 'cli/a.ts', `enum X { A }`, 'has an enum, X'],
    ['a class', 'cli/a.ts', `class X {}`, 'has a class that is not an error, X'],
    ['an error class', 'cli/a.ts', `class X extends Error {}`],
  ];
  const files = ['kube/types.ts', 'cluster/store.ts', 'dev-cluster/types.ts', 'server/psa.ts', 'cli/main.ts'];
  const command = ['cli/scc/command.ts', 'export const command = defineCommand({});'] as const;
  for (const [name, path, text, ...violations] of cases) {
    test(name, () => {
      const sources = new Map([...files.map((file) => [file, ''] as const), command, [path, text] as const]);
      assert.deepEqual(
        findViolations(sources),
        violations.map((violation) => `src/${path}: ${violation}`),
      );
    });
  }
});
