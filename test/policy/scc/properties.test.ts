/** Tests properties of decisions on arbitrary pods and SCCs. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { applyJsonPatch } from '../../../src/dev-cluster/json-patch.ts';
import { diff } from '../../../src/kube/json-patch.ts';
import { POD_SCC_ANNOTATIONS } from '../../../src/kube/scc.ts';
import type { JsonObject } from '../../../src/kube/types.ts';
import { decodePod, type PodFields } from '../../../src/policy/pod/index.ts';
import { evaluateDecoded } from '../../../src/policy/pss/index.ts';
import { type SccAccess, serviceAccountSubject } from '../../../src/policy/scc/access.ts';
import { explainPod } from '../../../src/policy/scc/advice/explain.ts';
import { admitTemplate, assignScc, validateScc } from '../../../src/policy/scc/assign.ts';
import type { SccInput } from '../../../src/policy/scc/index.ts';
import { answerReview, REVIEW_KINDS } from '../../../src/policy/scc/review.ts';
import { hostileJson } from '../../support/hostile-json.ts';
import { create, pod } from './arbitrary.ts';

const RUNS = { numRuns: 300 };

/** Returns the admitted pod, or `undefined` if the pod is denied. */
function assigned(input: SccInput): JsonObject | undefined {
  const decision = assignScc(input);
  return decision.allowed ? (decision.object as JsonObject) : undefined;
}

function getChosen(object: JsonObject | undefined): unknown {
  const { annotations } = (object?.['metadata'] ?? {}) as { readonly annotations?: JsonObject };
  return annotations?.[POD_SCC_ANNOTATIONS.scc];
}

test('a pod with SCC defaults does not change when it is reviewed again', () => {
  fc.assert(
    fc.property(create, (input) => {
      const once = assigned(input);
      if (once !== undefined) assert.deepEqual(assigned({ ...input, object: once }), once);
    }),
    RUNS,
  );
});

test('an access object with namesFor leads to the same decisions', () => {
  fc.assert(
    fc.property(create, (input) => {
      const { access, sccs } = input;
      const names = sccs.map(({ metadata }) => metadata?.name ?? '');
      const namesFor: SccAccess['namesFor'] = (subject, namespaceName) => {
        const usable = names.filter((name) => access.canUse(subject, name, namespaceName));
        return usable.length === names.length ? 'any' : new Set(usable);
      };
      const known = { ...input, access: { ...access, namesFor } };
      assert.deepEqual(assignScc(known), assignScc(input));
      assert.deepEqual(validateScc(known), validateScc(input));
    }),
    RUNS,
  );
});

test('a template is defaulted like a pod that its service account creates', () => {
  fc.assert(
    fc.property(create, fc.constantFrom('openshift' as const, 'portcullis' as const), (input, compatibility) => {
      const original = input.object as JsonObject;
      const template = decode(original);
      const account = template.serviceAccountName || 'default';
      const spec = { ...(original['spec'] as JsonObject), serviceAccountName: account };
      const object = { ...original, spec };
      const userInfo = serviceAccountSubject(input.namespace.metadata?.name ?? '', account);
      const decision = assignScc({ ...input, compatibility, object, userInfo });
      const { pod: completed, denial } = admitTemplate(template, { ...input, compatibility });
      assert.deepEqual(denial, decision.allowed ? undefined : decision);
      if (!decision.allowed) {
        assert.equal(completed, template);
        return;
      }
      const { spec: expected } = decision.object as JsonObject;
      const policy = { level: 'restricted', version: 'latest' } as const;
      const evaluated = evaluateDecoded({ pod: completed }, policy);
      assert.deepEqual(evaluated, evaluateDecoded({ pod: decode({ ...original, spec: expected }) }, policy));
    }),
    RUNS,
  );
});

function decode(object: unknown): PodFields {
  const { pod: decoded } = decodePod(object);
  assert.ok(decoded);
  return decoded;
}

test('the validating pass admits a pod that the mutating pass has defaulted', () => {
  fc.assert(
    fc.property(create, fc.constantFrom('openshift' as const, 'portcullis' as const), (input, compatibility) => {
      const object = assigned({ ...input, compatibility });
      if (object === undefined) return;
      const decision = validateScc({ ...input, compatibility, object });
      assert.ok(decision.allowed, decision.allowed ? '' : decision.status.message);
      assert.deepEqual(decision.auditAnnotations, { chosen: getChosen(object) });
    }),
    RUNS,
  );
});

test('OpenShift compatibility does not change the chosen SCC', () => {
  fc.assert(
    fc.property(create, (input) => {
      const [chosen, onOpenShift] = (['portcullis', 'openshift'] as const).map((compatibility) =>
        getChosen(assigned({ ...input, compatibility })),
      );
      assert.equal(chosen, onOpenShift);
    }),
    RUNS,
  );
});

test('updates change only annotations, except for ephemeral containers in their subresource', () => {
  fc.assert(
    fc.property(create, pod, fc.constantFrom(undefined, 'ephemeralcontainers', 'resize'), (input, oldObject, sub) => {
      const object = assigned({ ...input, operation: 'UPDATE', oldObject, subResource: sub });
      if (object === undefined || object === input.object) return;
      const changed = diff(input.object, object).map(({ path }) => path);
      const mayChange =
        sub === 'ephemeralcontainers'
          ? /^\/(metadata\/annotations|spec\/ephemeralContainers)/
          : /^\/metadata\/annotations/;
      for (const path of changed) assert.match(path, mayChange);
    }),
    RUNS,
  );
});

test('SCC decisions do not change their input', () => {
  fc.assert(
    fc.property(create, (input) => {
      const before = structuredClone({ ...input, access: undefined });
      deepFreeze({ ...input, access: undefined });
      const object = assigned(input) ?? input.object;
      validateScc({ ...input, object });
      assignScc({ ...input, operation: 'UPDATE', oldObject: object });
      assert.deepEqual({ ...input, access: undefined }, before);
    }),
    RUNS,
  );
});

const json = hostileJson(
  [
    ...['metadata', 'name', 'annotations', 'spec', 'os', 'containers', 'initContainers', 'securityContext', 'ports'],
    ...['capabilities', 'add', 'volumes', 'projected', 'sources', 'sysctls', 'type', 'ranges', 'runAsUser', 'users'],
    ...['openshift.io/scc', 'openshift.io/required-scc', 'openshift.io/sa.scc.uid-range', 'openshift.io/sa.scc.mcs'],
  ],
  ['MustRunAs', 'RunAsAny'],
);

const review = ({ object, ...input }: SccInput) => {
  for (const kind of REVIEW_KINDS) {
    const asked = { kind, spec: { template: object, user: object, groups: object, serviceAccountNames: object } };
    answerReview({ ...input, review: asked, hasServiceAccount: () => true });
  }
};
const DECISIONS = [assignScc, validateScc, explainPod, review];

test('SCC decisions do not throw an error', () => {
  const operation = fc.constantFrom('CREATE' as const, 'UPDATE' as const, 'DELETE' as const, 'CONNECT' as const);
  const request = fc.record({
    operation,
    object: json,
    oldObject: json,
    namespace: json,
    userInfo: json,
    sccs: fc.array(json),
  });
  fc.assert(
    fc.property(
      create,
      request,
      fc.constantFrom('openshift' as const, 'portcullis' as const),
      (input, odd, compatibility) => {
        for (const member of Object.keys(odd)) {
          const mixed = { ...input, compatibility, [member]: odd[member as keyof typeof odd] } as SccInput;
          for (const decide of DECISIONS) decide(mixed);
        }
        for (const decide of DECISIONS) decide({ ...input, ...odd, compatibility } as SccInput);
      },
    ),
    RUNS,
  );
});

/** Members of pods that decisions do not read, or whose names are arbitrary. */
const UNREAD =
  /^\/(apiVersion|kind|metadata\/name)$|\/(image|containerPort|value)$|\/volumes\/\d+\/name$|\/projected\/./;

test('a value of the wrong type is denied in every field that decisions read', () => {
  fc.assert(
    fc.property(create, fc.nat(), (input, at) => {
      const paths = getPaths(input.object, '').filter((path) => !UNREAD.test(path));
      const path = paths[at % paths.length] ?? '/spec';
      const value = typeof getAt(input.object, path) === 'object' ? 'odd' : { odd: true };
      const object = applyJsonPatch(input.object, [{ op: 'replace', path, value }]);
      const decision = assignScc({ ...input, object, access: { canUse: () => true } });
      const message = decision.allowed ? '' : decision.status.message;
      assert.match(message, /^object was marked as kind pod but was unable to be converted: /, path);
    }),
    RUNS,
  );
});

function getAt(value: unknown, path: string): unknown {
  return path
    .split('/')
    .slice(1)
    .map((name) => name.replaceAll('~1', '/').replaceAll('~0', '~'))
    .reduce((member, name) => (member as JsonObject)[name], value);
}

function getPaths(value: unknown, path: string): string[] {
  if (typeof value !== 'object' || value === null) return [path];
  const inner = Object.entries(value).flatMap(([name, member]) =>
    getPaths(member, `${path}/${name.replaceAll('~', '~0').replaceAll('/', '~1')}`),
  );
  return path === '' ? inner : [path, ...inner];
}

function deepFreeze(value: unknown): void {
  if (typeof value !== 'object' || value === null || Object.isFrozen(value)) return;
  Object.freeze(value);
  for (const member of Object.values(value)) deepFreeze(member);
}
