import { readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import ts from 'typescript';

const HEAD = `# Library

The npm package exports the functions with which Portcullis makes its decisions, including their types. They are pure functions that read neither the clock nor a cluster,
import no packages, and run in every JavaScript runtime. The exports have the version of the program. \`npm run docs\` generates this page from the sources.
`;

/** Source file and purpose of each package export. */
const EXPORTS = [
  ['pss', 'src/policy/pss/library.ts', 'Evaluates pods against the Pod Security Standards.'],
  ['scc', 'src/policy/scc/library.ts', 'Decides which SecurityContextConstraints admit a pod, and defaults the pod.'],
  ['psa', 'src/policy/psa/library.ts', 'Computes the Pod Security level that the pods of an SCC satisfy.'],
  ['rbac', 'src/policy/rbac/library.ts', 'Evaluates role-based access control by roles and bindings.'],
] as const;

/** Formats the library reference, which contains an example and the exported declarations for each package export. */
export function formatLibraryReference(): string {
  const sections = EXPORTS.map(([name, file, summary]) => {
    const example = readFileSync(`examples/library/${name}.js`, 'utf8');
    const declarations = findExports(file).map(printDeclaration).join('\n\n');
    return `## portcullis/${name}\n\n${summary}\n\n\`\`\`js\n${example}\`\`\`\n\n\`\`\`ts\n${declarations}\n\`\`\`\n`;
  });
  return [HEAD, ...sections].join('\n');
}

/** Returns the exported statements of a file, including re-exports. */
function findExports(file: string, names?: Set<string>): readonly ts.Statement[] {
  const { statements } = ts.createSourceFile(file, readFileSync(file, 'utf8'), ts.ScriptTarget.Latest, true);
  return statements.flatMap((statement) => {
    if (ts.isExportDeclaration(statement) && statement.moduleSpecifier && statement.exportClause) {
      if (!ts.isStringLiteral(statement.moduleSpecifier) || !ts.isNamedExports(statement.exportClause)) return [];
      const exported = new Set(statement.exportClause.elements.map(({ name }) => name.text));
      const wanted = names?.intersection(exported) ?? exported;
      return wanted.size === 0 ? [] : findExports(join(dirname(file), statement.moduleSpecifier.text), wanted);
    }
    const isExported = ts.canHaveModifiers(statement) && ts.getModifiers(statement)?.some(isExportKeyword);
    return isExported && (!names || declaredNames(statement).some((name) => names.has(name))) ? [statement] : [];
  });
}

function isExportKeyword({ kind }: ts.Modifier): boolean {
  return kind === ts.SyntaxKind.ExportKeyword;
}

function declaredNames(statement: ts.Statement): readonly string[] {
  if (ts.isVariableStatement(statement)) {
    return statement.declarationList.declarations.flatMap(({ name }) =>
      ts.isObjectBindingPattern(name) ? name.elements.map((element) => element.name.getText()) : [name.getText()],
    );
  }
  const { name } = statement as { readonly name?: ts.Identifier };
  return name ? [name.text] : [];
}

/** Maximum length of a variable that is printed with its value. */
const MAX_LENGTH = 120;

/** Prints a declaration with its documentation, but without function bodies and long values. */
function printDeclaration(statement: ts.Statement): string {
  const file = statement.getSourceFile();
  const documentation = ts.getJSDocCommentsAndTags(statement).find(ts.isJSDoc)?.getText() ?? '';
  let text = statement.getText(file).replace(/^export /, '');
  if (ts.isFunctionDeclaration(statement) && statement.body) {
    text = `${file.text
      .slice(statement.getStart(), statement.body.getStart())
      .replace(/^export /, '')
      .trim()};`;
  }
  if (ts.isVariableStatement(statement) && text.length > MAX_LENGTH) text = text.replace(/ = [^]*$/, ';');
  return documentation === '' ? text : `${documentation}\n${text}`;
}
