/** Reads the verdicts of the commands and of a cluster for the workloads of a chart. */
import assert from 'node:assert/strict';
import { POD_SCC_ANNOTATIONS } from '../../src/kube/scc.ts';
import { isObject, type JsonObject } from '../../src/kube/types.ts';
import { CONTROLLER } from '../full-cluster/workloads.ts';
import { objectMetadata, responseMessage, responseObject } from '../support/answers.ts';
import type { ApiClient } from '../support/api-client.ts';
import { runProgram } from '../support/memory-io.ts';
import type { Workload } from './chart.ts';

export interface Verdict {
  readonly isAllowed: boolean;
  /** The SCC that admits the pod, or the reason for the denial. */
  readonly text: string;
  /** The pod that a cluster admits. */
  readonly pod?: JsonObject;
}

/** The verdicts by ID of the workload. */
export type Verdicts = ReadonlyMap<string, Verdict>;

interface Named {
  readonly kind: string;
  readonly name: string;
}

interface Violation {
  readonly check: string;
  readonly reason: string;
  readonly detail: string;
}

const idOf = ({ kind, name }: Named): string => `${kind}/${name}`;

/** Formats the namespace and the manifests as standard input of a command. */
export function toText(objects: readonly JsonObject[]): string {
  return objects.map((object) => JSON.stringify(object)).join('\n---\n');
}

async function runJson(args: readonly string[], stdin: string): Promise<unknown> {
  const { code, stdout, stderr } = await runProgram([...args, '-f', '-', '-o', 'json'], { stdin });
  assert.ok(code < 2, `${args.join(' ')}: ${stderr}`);
  return JSON.parse(stdout);
}

/** Prints violations in the format of Pod Security Admission. */
function printViolations(violations: readonly Violation[]): string {
  return violations.map(({ reason, detail }) => (detail === '' ? reason : `${reason} (${detail})`)).join(', ');
}

/** Returns the checks that each workload fails, by workload ID. */
export type FailedChecks = ReadonlyMap<string, readonly string[]>;

/** Returns the verdicts of `portcullis check`, and the checks that each workload fails. */
export async function runCheck(
  stdin: string,
  namespace: string,
  options: readonly string[],
): Promise<{ readonly verdicts: Verdicts; readonly checks: FailedChecks }> {
  const { objects } = (await runJson(['check', '-n', namespace, ...options], stdin)) as {
    readonly objects: readonly (Named & {
      readonly namespace?: string;
      readonly findings: readonly (Violation & { readonly mode: string })[];
    })[];
  };
  const own = objects.filter((object) => object.namespace === namespace);
  const denials = own.map((object) => ({ object, found: object.findings.filter(({ mode }) => mode === 'enforce') }));
  return {
    verdicts: new Map(
      denials.map(({ object, found }) => [
        idOf(object),
        { isAllowed: found.length === 0, text: printViolations(found) },
      ]),
    ),
    checks: new Map(denials.map(({ object, found }) => [idOf(object), found.map(({ check }) => check)])),
  };
}

/** Returns the verdicts of `portcullis rollout plan` for the level in force. */
export async function runRolloutPlan(
  stdin: string,
  namespace: string,
  workloads: readonly Workload[],
): Promise<Verdicts> {
  const { namespaces } = (await runJson(['rollout', 'plan', '-n', namespace, '--scc-mode=report'], stdin)) as {
    readonly namespaces: readonly {
      readonly name: string;
      readonly verdict: string;
      readonly error?: string;
      readonly workloads: readonly (Named & { readonly violations: readonly Violation[]; readonly verdict: string })[];
    }[];
  };
  const plan = namespaces.find(({ name }) => name === namespace);
  assert.ok(plan && plan.verdict !== 'inconclusive', `${namespace}: ${plan?.error ?? 'is not planned'}`);
  return new Map(
    workloads.map(({ id }) => {
      const denied = plan.workloads.find((one) => idOf(one) === id && one.verdict === 'deniedNow');
      return [id, { isAllowed: denied === undefined, text: printViolations(denied?.violations ?? []) }];
    }),
  );
}

/** The recommendation of `portcullis scc plan` for a denied workload. */
export interface SccAdvice {
  /** The usable SCC that is closest to admitting the pod. */
  readonly scc: string;
  /** The fields of the pod that the closest SCC does not allow. */
  readonly fields: readonly string[];
  /** The least permissive SCC that allows these fields. */
  readonly grantable: string | undefined;
}

/** Returns the verdicts of `portcullis scc plan`. */
export async function runSccPlan(
  stdin: string,
  namespace: string,
): Promise<{ readonly verdicts: Verdicts; readonly advice: ReadonlyMap<string, SccAdvice> }> {
  const { workloads } = (await runJson(['scc', 'plan', '-n', namespace], stdin)) as {
    readonly workloads: readonly (Named & {
      readonly outcome: string;
      readonly scc?: string;
      readonly message?: string;
      readonly grantable?: string;
      readonly closest?: { readonly scc: string; readonly disallowedFields: readonly { readonly path: string }[] };
    })[];
  };
  return {
    verdicts: new Map(
      workloads.map((one) => [
        idOf(one),
        { isAllowed: one.outcome === 'admitted', text: one.scc ?? one.message ?? '' },
      ]),
    ),
    advice: new Map(
      workloads.map(({ closest, grantable, ...one }) => [
        idOf(one),
        {
          scc: closest?.scc ?? '',
          fields: (closest?.disallowedFields ?? []).map(({ path }) => path),
          grantable,
        },
      ]),
    ),
  };
}

/**
 * Permits the impersonated controller to create pods. The development cluster does not have the roles of controllers.
 */
export const CREATOR_RIGHTS: readonly JsonObject[] = [
  {
    apiVersion: 'rbac.authorization.k8s.io/v1',
    kind: 'ClusterRole',
    metadata: { name: 'pod-creator' },
    rules: [{ apiGroups: [''], resources: ['pods'], verbs: ['create'] }],
  },
  {
    apiVersion: 'rbac.authorization.k8s.io/v1',
    kind: 'ClusterRoleBinding',
    metadata: { name: 'pod-creator' },
    roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'ClusterRole', name: 'pod-creator' },
    subjects: [{ apiGroup: 'rbac.authorization.k8s.io', kind: 'User', name: CONTROLLER['Impersonate-User'] }],
  },
];

/** Returns the verdicts of the cluster. Creates the pods in dry runs, with the users of the Kubernetes controllers. */
export async function tryPods(admin: ApiClient, namespace: string, workloads: readonly Workload[]): Promise<Verdicts> {
  const verdicts = new Map<string, Verdict>();
  for (const { id, pod } of workloads) {
    const answer = await admin.send('POST', `/api/v1/namespaces/${namespace}/pods?dryRun=All`, pod, CONTROLLER);
    if (answer.status !== 201) {
      verdicts.set(id, { isAllowed: false, text: String(responseMessage(answer)) });
      continue;
    }
    const admitted = responseObject(answer);
    const { annotations } = objectMetadata(admitted);
    const scc = isObject(annotations) ? annotations[POD_SCC_ANNOTATIONS.scc] : '';
    verdicts.set(id, { isAllowed: true, text: String(scc), pod: admitted });
  }
  return verdicts;
}
