/**
 * Tests that the package exports have working examples, export the types that they name, and reject invalid arguments.
 */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { inspect } from 'node:util';
import { runInThisContext } from 'node:vm';
import ts from 'typescript';
import { psaLevel } from '../../src/policy/psa/library.ts';
import { evaluatePod } from '../../src/policy/pss/library.ts';
import { assignScc, type SccRequest, validateScc } from '../../src/policy/scc/library.ts';

const BASELINE = { level: 'baseline', version: 'latest' } as const;
const METADATA = { name: 'web', creationTimestamp: null };
const POD = { apiVersion: 'v1', kind: 'Pod', metadata: METADATA, spec: { containers: [{ name: 'c', image: 'i' }] } };
const DEPLOYMENT = { apiVersion: 'apps/v1', kind: 'Deployment', metadata: METADATA, spec: { template: POD } };

describe('evaluatePod accepts or rejects', () => {
  const cases: readonly (readonly [name: string, pod: unknown, options: object, detail: string])[] = [
    ['a valid pod', POD, BASELINE, ''],
    ['a pod template', { metadata: METADATA, spec: POD.spec }, BASELINE, ''],
    ['a Deployment', DEPLOYMENT, BASELINE, 'kind: Unsupported value: "Deployment": supported values: "Pod"'],
    [
      'a Deployment at the privileged level',
      DEPLOYMENT,
      { ...BASELINE, level: 'privileged' },
      'kind: Unsupported value: "Deployment": supported values: "Pod"',
    ],
    ['nothing', undefined, BASELINE, 'there is no pod'],
    ['a string', 'web', BASELINE, 'json: cannot unmarshal string into Go value of type v1.Pod'],
    [
      'an unknown level',
      POD,
      { ...BASELINE, level: 'Restricted' },
      'options.level: Unsupported value: "Restricted": supported values: "privileged", "baseline", "restricted"',
    ],
  ];
  for (const [name, pod, options, detail] of cases) {
    test(name, () => {
      const { allowed, violations } = evaluatePod(pod, options as typeof BASELINE);
      const expected = detail === '' ? [] : [{ check: 'decode', reason: 'undecodable field', detail }];
      assert.deepEqual([allowed, violations], [detail === '', expected]);
    });
  }
});

const NAMESPACE = {
  metadata: {
    name: 'shop',
    creationTimestamp: new Date(0),
    annotations: { 'openshift.io/sa.scc.uid-range': '1000000000/10000', 'openshift.io/sa.scc.mcs': 's0:c1,c0' },
  },
};
const SCC = {
  kind: 'SecurityContextConstraints',
  metadata: { name: 'any', creationTimestamp: null },
  ...{ runAsUser: { type: 'RunAsAny' }, seLinuxContext: { type: 'RunAsAny' } },
  ...{ fsGroup: { type: 'RunAsAny' }, supplementalGroups: { type: 'RunAsAny' }, volumes: ['*'] },
};
const REQUEST: SccRequest = {
  operation: 'CREATE',
  object: POD,
  namespace: NAMESPACE,
  userInfo: { username: 'alice', groups: ['system:authenticated'] },
  sccs: [SCC],
  canUse: () => true,
};

describe('assignScc and validateScc', () => {
  test('admit a pod and return its SCC', () => {
    const decision = assignScc(REQUEST);
    assert.equal(decision.allowed && decision.facts?.scc, 'any');
  });

  const cases: readonly (readonly [name: string, change: object, message: string])[] = [
    [
      'an input without an operation',
      { operation: undefined },
      'operation: Unsupported value: null: supported values: "CREATE", "UPDATE", "DELETE", "CONNECT"',
    ],
    ['an input without canUse', { canUse: undefined }, 'canUse: Invalid value: null: must be a function'],
    ['an input without a list of SCCs', { sccs: SCC }, `sccs: Invalid value: ${JSON.stringify(SCC)}: must be a list`],
    [
      'an object of another kind in the list of SCCs',
      { sccs: [SCC, POD] },
      'sccs[1].kind: Unsupported value: "Pod": supported values: "SecurityContextConstraints"',
    ],
    ['the name of a namespace', { namespace: 'shop' }, 'namespace: Invalid value: "shop": must be an object'],
    [
      'a pod as the namespace',
      { namespace: POD },
      'namespace.kind: Unsupported value: "Pod": supported values: "Namespace"',
    ],
    ['a namespace without a name', { namespace: { metadata: {} } }, 'namespace.metadata.name: Required value'],
    ['an input without a user', { userInfo: null }, 'userInfo: Invalid value: null: must be an object'],
    ['a user without a name', { userInfo: {} }, 'userInfo.username: Invalid value: null: must be a string'],
    [
      'groups that are not a list',
      { userInfo: { username: 'alice', groups: 'admins' } },
      'userInfo.groups: Invalid value: "admins": must be a list of strings',
    ],
  ];
  for (const [name, change, message] of cases) {
    test(`reject ${name} as a bad request`, () => {
      for (const decide of [assignScc, validateScc]) {
        const decision = decide({ ...REQUEST, ...change });
        assert.deepEqual(decision.allowed ? [] : [decision.status.code, decision.status.message], [400, message]);
      }
    });
  }

  test('reject a Deployment instead of a pod', () => {
    const decision = assignScc({ ...REQUEST, object: DEPLOYMENT });
    assert.match(
      decision.allowed ? '' : decision.status.message,
      /^object was marked as kind pod but was unable to be converted: \{"apiVersion":"apps\/v1","kind":"Deployment"/,
    );
  });
});

describe('psaLevel accepts or rejects', () => {
  const ACCURATE = { profile: 'accurate' } as const;
  const cases: readonly (readonly [name: string, scc: unknown, namespace: unknown, options: object, error?: string])[] =
    [
      ['a valid SCC', SCC, NAMESPACE, ACCURATE],
      ['undefined as the SCC', undefined, NAMESPACE, ACCURATE, 'scc: Invalid value: null: must be an object'],
      [
        'a pod as the SCC',
        POD,
        NAMESPACE,
        ACCURATE,
        'scc.kind: Unsupported value: "Pod": supported values: "SecurityContextConstraints"',
      ],
      ['undefined as the namespace', SCC, 'shop', ACCURATE, 'namespace: Invalid value: "shop": must be an object'],
      [
        'an unknown profile',
        SCC,
        NAMESPACE,
        { profile: 'exact' },
        'options.profile: Unsupported value: "exact": supported values: "upstream", "accurate"',
      ],
      [
        'a field of the wrong type',
        { ...SCC, volumes: 'all' },
        NAMESPACE,
        ACCURATE,
        'volumes: Invalid value: "all": must be a list',
      ],
    ];
  for (const [name, scc, namespace, options, error] of cases) {
    test(name, () => {
      const expected = error === undefined ? { level: 'privileged' } : { level: 'privileged', error };
      assert.deepEqual(psaLevel(scc, namespace, options as typeof ACCURATE), expected);
    });
  }
});

describe('the exports of the package:', () => {
  const names = ['pss', 'psa', 'scc', 'rbac'];
  const paths = names.map((name) => `src/policy/${name}/library.ts`);
  const config = ts.getParsedCommandLineOfConfigFile(
    'tsconfig.json',
    {},
    { ...ts.sys, onUnRecoverableConfigFileDiagnostic: (diagnostic) => assert.fail(inspect(diagnostic)) },
  );
  const program = ts.createProgram(paths, config?.options ?? {});
  const checker = program.getTypeChecker();

  for (const [index, name] of names.entries()) {
    const file = program.getSourceFile(paths[index] ?? '');
    const module = file && checker.getSymbolAtLocation(file);
    const symbols = (module ? checker.getExportsOfModule(module) : []).map((symbol) =>
      (symbol.flags & ts.SymbolFlags.Alias) === 0 ? symbol : checker.getAliasedSymbol(symbol),
    );
    const functions = symbols.filter(
      (symbol) =>
        file &&
        (symbol.flags & ts.SymbolFlags.Value) !== 0 &&
        checker.getTypeOfSymbolAtLocation(symbol, file).getCallSignatures().length > 0,
    );

    test(`the example of each function of ./${name} gives its result`, async () => {
      const library = (await import(`../../${paths[index]}`)) as Readonly<Record<string, unknown>>;
      for (const symbol of functions) {
        const [, code = '', expression = '', result] = /^([^]*?)([^\n]+); \/\/ (.+)$/.exec(readExample(symbol)) ?? [];
        const others = Object.keys(library).filter((key) => !code.includes(`{ ${key} } =`));
        const run = runInThisContext(`(${others.join()}) => { ${code}return ${expression}; }`) as (
          ...values: unknown[]
        ) => unknown;
        assert.equal(
          inspect(run(...others.map((key) => library[key])), { breakLength: Infinity }),
          result,
          symbol.name,
        );
      }
    });

    test(`./${name} includes the types that its functions use`, () => {
      const exported = new Set(symbols);
      const missing = functions.flatMap((symbol) =>
        namedTypes(symbol)
          .filter((type) => !exported.has(type))
          .map((type) => `${symbol.name}: ${type.name}`),
      );
      assert.deepEqual(missing, []);
    });
  }

  /** Returns the example in the documentation of a function, or of the type that declares it. */
  function readExample(symbol: ts.Symbol): string {
    const type = checker.getTypeOfSymbol(symbol);
    const documented = [symbol, ...(type.aliasSymbol ? [type.aliasSymbol] : []), ...(type.symbol ? [type.symbol] : [])];
    const tags = documented.flatMap((source) => source.getJsDocTags(checker));
    return ts.displayPartsToString(tags.find((tag) => tag.name === 'example')?.text);
  }

  /** Returns the types of this project that occur in the signatures of a function. */
  function namedTypes(symbol: ts.Symbol): readonly ts.Symbol[] {
    const named: ts.Symbol[] = [];
    const visit = (node: ts.Node): void => {
      const type = ts.isTypeReferenceNode(node) ? checker.getSymbolAtLocation(node.typeName) : undefined;
      const target = type && (type.flags & ts.SymbolFlags.Alias) !== 0 ? checker.getAliasedSymbol(type) : type;
      if (target?.declarations?.some((declaration) => declaration.getSourceFile().fileName.includes('/src/')))
        named.push(target);
      ts.forEachChild(node, visit);
    };
    for (const { declaration } of checker.getTypeOfSymbol(symbol).getCallSignatures()) {
      for (const node of [...(declaration?.parameters ?? []), declaration?.type]) if (node) visit(node);
    }
    return named;
  }
});
