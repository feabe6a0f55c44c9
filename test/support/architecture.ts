import { dirname, join } from 'node:path/posix';
import ts from 'typescript';

/** The text of each source file by its path below src/. */
export type Sources = ReadonlyMap<string, string>;

/** A file imports from its own folder and from rows above it in this list; row by row, from the ground up. */
export const ROWS: readonly (readonly string[])[] = [
  ['kube'],
  ['policy/pod'],
  ['policy/pss', 'policy/scc', 'policy/rbac', 'policy/uid-range', 'policy/kubelet', 'policy/olm'],
  ['policy/psa'],
  ['policy/rollout'],
  ['telemetry'],
  ['config', 'tls'],
  ['cluster'],
  ['dev-cluster', 'server', 'controllers'],
  ['install'],
  ['cli'],
  ['main.ts'],
];

/** Rows below this one decide: they do not wait, know no time and need nothing at run time. */
const PURE_ROWS = 5;

/** Where a package may be imported: a folder, or one file. */
const HOMES: ReadonlyMap<string, readonly string[]> = new Map([
  ['fastify', ['server/', 'dev-cluster/server.ts']],
  ['node-forge', ['tls/']],
  ['commander', ['cli/program.ts']],
  ['pino', ['telemetry/']],
  ['prom-client', ['telemetry/']],
  ['ajv', ['config/ajv.ts', 'dev-cluster/objects/custom-resources.ts']],
  ['yaml', ['config/yaml.ts']],
  ['rfc6902', ['dev-cluster/json-patch.ts']],
  ['@marcbachmann/cel-js', ['dev-cluster/']],
  ['@kubernetes/client-node', ['cluster/', 'cli/check/manifests.ts']],
]);

/** Its types are everywhere: they are the words of the Kubernetes API. */
const TYPES_EVERYWHERE = '@kubernetes/client-node';

/** The manifest of the package, which tells the version. */
const MANIFEST = { path: '../package.json', home: 'cli/command.ts' };

/** Names that pure code does not use, since they wait, tell the time, roll dice or reach outside. */
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

/** Says what breaks the rules of the house, one line each, in the order of the files. */
export function findViolations(sources: Sources): string[] {
  return [...sources].flatMap(([path, text]) => {
    const file = ts.createSourceFile(path, text, ts.ScriptTarget.Latest, true);
    const unit = unitOf(path);
    if (unit === undefined) return [`src/${path}: its folder has no row`];
    const pure = rowOf(unit) < PURE_ROWS;
    return [
      ...importsOf(file).flatMap((imported) => importViolations(sources, path, imported)),
      ...nodesOf(file).flatMap((node) => [...styleViolations(path, node), ...(pure ? purityViolations(node) : [])]),
    ].map((violation) => `src/${path}: ${violation}`);
  });
}

/**
 * The unit whose rules hold for a file: the longest name in the rows that is a folder above it. A folder with units
 * inside holds only the files that lie directly in it.
 */
function unitOf(path: string): string | undefined {
  const names = ROWS.flat();
  if (names.includes(path)) return path;
  const unit = names.filter((name) => path.startsWith(`${name}/`)).sort((a, b) => b.length - a.length)[0];
  const isParent = names.some((name) => name.startsWith(`${unit ?? ''}/`));
  return isParent && dirname(path) !== unit ? undefined : unit;
}

function rowOf(unit: string): number {
  return ROWS.findIndex((row) => row.includes(unit));
}

interface Import {
  /** `undefined` if it is computed. */
  readonly specifier: string | undefined;
  /** True if nothing is left of it at run time. */
  readonly typeOnly: boolean;
}

function importsOf(file: ts.SourceFile): Import[] {
  return nodesOf(file).flatMap((node): Import[] => {
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
  if (specifier === undefined) return ['imports something computed'];
  if (specifier.startsWith('.')) return fileViolations(sources, path, specifier);
  const isPure = rowOf(unitOf(path) ?? '') < PURE_ROWS;
  if (specifier.startsWith('node:')) return isPure ? [`imports ${specifier}, but its row is pure`] : [];
  return packageViolations(path, packageOf(specifier), isPure, typeOnly);
}

function fileViolations(sources: Sources, path: string, specifier: string): string[] {
  const target = join(dirname(path), specifier);
  if (target === MANIFEST.path && path === MANIFEST.home) return [];
  if (!sources.has(target)) return [`imports ${specifier}, which is no file of src/`];
  const [from, to] = [unitOf(path), unitOf(target)];
  if (from === undefined || to === undefined || from === to || rowOf(to) < rowOf(from)) return [];
  return [`imports src/${target}: ${from} may not import from ${to}`];
}

function packageViolations(path: string, name: string, isPure: boolean, typeOnly: boolean): string[] {
  if (typeOnly && name === TYPES_EVERYWHERE) return [];
  if (isPure) return [`imports ${name}, but its row is pure`];
  const homes = HOMES.get(name);
  if (!homes) return [`imports ${name}, which has no home`];
  return homes.some((home) => path === home || (home.endsWith('/') && path.startsWith(home)))
    ? []
    : [`imports ${name}, whose home is ${homes.map((home) => `src/${home}`).join(' and ')}`];
}

function packageOf(specifier: string): string {
  return specifier
    .split('/')
    .slice(0, specifier.startsWith('@') ? 2 : 1)
    .join('/');
}

function styleViolations(path: string, node: ts.Node): string[] {
  if (ts.isEnumDeclaration(node)) return [`has an enum, ${node.name.text}`];
  if (isDefaultExport(node)) return ['has a default export'];
  if (ts.isClassDeclaration(node) && !isErrorClass(node)) return [`has a class that is no error, ${node.name?.text}`];
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
  if (node.kind === ts.SyntaxKind.AsyncKeyword || ts.isAwaitExpression(node)) return ['waits, but its row is pure'];
  if (ts.isNewExpression(node) && node.expression.getText() === 'Date' && (node.arguments ?? []).length === 0) {
    return ['reads the clock, but its row is pure'];
  }
  if (!ts.isPropertyAccessExpression(node)) return isFreeName(node) && IMPURE.has(node.text) ? [impure(node.text)] : [];
  const text = node.getText();
  return text === 'Date.now' || text === 'Math.random' ? [impure(text)] : [];
}

function impure(name: string): string {
  return `uses ${name}, but its row is pure`;
}

/** True for a name that is looked up, other than the name of a member or of something that is declared here. */
function isFreeName(node: ts.Node): node is ts.Identifier {
  if (!ts.isIdentifier(node)) return false;
  const { parent } = node;
  if (ts.isPropertyAccessExpression(parent)) return parent.expression === node;
  return ts.isCallExpression(parent) || ts.isNewExpression(parent) || ts.isTypeReferenceNode(parent);
}

function nodesOf(root: ts.Node): ts.Node[] {
  const nodes: ts.Node[] = [];
  const visit = (node: ts.Node): void => {
    nodes.push(node);
    // With the keywords, which are no children in the usual sense.
    for (const child of node.getChildren()) visit(child);
  };
  visit(root);
  return nodes;
}
