/**
 * Facts that `doctor` gathers about an installation, and the results of its checks. Checks are pure functions of the
 * facts. If a fact cannot be read, the other checks still run.
 */
import type { PolicyKind } from '../../api/admission-policies.ts';
import type { AnyObject, Server } from '../../cluster/client.ts';
import type { Configuration, Manifest, ManifestSettings } from '../../install/index.ts';
import type { Kinds } from '../../kube/kinds.ts';
import type { PodSecurityException } from '../../kube/pod-security-exception.ts';
import type { EndpointSlice, JsonObject, Lease, Node, Pod, PortcullisConfiguration } from '../../kube/types.ts';
import type { RbacGrant } from '../../policy/rbac/index.ts';
import type { ExemptionProblem } from '../../views/exemptions.ts';
import type { SccGrant } from '../../views/scc-grants.ts';
import type { InstalledPolicy } from '../installation/policies.ts';
import type { ShellCommand } from '../output/shell.ts';

/** A value, or the reason it could not be read. */
export type Fact<T> = { readonly value: T } | { readonly unknown: string };

/** A namespace with the labels that webhook selectors use. */
export interface NamespaceFact {
  readonly name: string;
  readonly labels: Readonly<Record<string, string>>;
}

/** A floor policy or its binding. */
export interface FloorObject extends AnyObject {
  readonly kind: PolicyKind;
  readonly spec?: NonNullable<Kinds['ValidatingAdmissionPolicy']['spec']> &
    Pick<NonNullable<Kinds['ValidatingAdmissionPolicyBinding']['spec']>, 'matchResources'>;
}

export interface SuspectGrant extends SccGrant {
  readonly scc: string;
}

export interface CheckedCertificate {
  /** A Secret, such as `secrets/portcullis-serving-certificate`, or the address that serves the certificate. */
  readonly source: string;
  /** Certificate chain in PEM, or `undefined` if there is none. */
  readonly chain: string | undefined;
}

/** A dry run that makes the API server call the webhooks. */
export interface ProbeRequest {
  readonly id: 'a pod' | 'an SCC' | 'a violating pod';
  /** Absent for cluster-scoped objects. */
  readonly namespace?: NamespaceFact;
  readonly group: string;
  readonly resource: string;
  readonly body: object;
}

export interface Probe extends ProbeRequest {
  /** The admitted object. Absent if the request failed. */
  readonly object?: AnyObject;
  /** Error message of the API server if it rejected the request. */
  readonly rejection?: string;
}

/** Policies that remain from an installation without a server in a cluster that also has a server. */
export interface RemainingPolicies {
  readonly policies: readonly InstalledPolicy[];
  /** Policy settings that the server enforces less strictly. */
  readonly weaker: Fact<readonly string[]>;
}

export interface Facts {
  readonly now: Date;
  /** Installation namespace. */
  readonly namespace: string;
  /** Settings of the installation, derived from its objects. */
  readonly settings: ManifestSettings;
  readonly server: Fact<Server>;
  readonly webhookConfigurations: readonly Configuration[];
  readonly remainingPolicies?: RemainingPolicies | undefined;
  /** The floor policies and their bindings. */
  readonly policies: Fact<readonly FloorObject[]>;
  readonly namespaces: Fact<readonly NamespaceFact[]>;
  readonly nodes: Fact<readonly Node[]>;
  readonly deployment: Fact<Kinds['Deployment'] | undefined>;
  /** Other namespaces with a Deployment of Portcullis. */
  readonly otherInstallations: Fact<readonly string[]>;
  /** All pods in the installation namespace. */
  readonly pods: Fact<readonly Pod[]>;
  readonly endpointSlices: Fact<readonly EndpointSlice[]>;
  readonly disruptionBudgets: Fact<readonly AnyObject[]>;
  readonly leases: Fact<readonly Lease[]>;
  /** Certificate served by the endpoint of the Service. */
  readonly certificate: Fact<CheckedCertificate>;
  /** The certificates served at the URLs of webhooks, by origin. */
  readonly urlCertificates: ReadonlyMap<string, Fact<CheckedCertificate>>;
  readonly settingsObject: Fact<PortcullisConfiguration | undefined>;
  /**
   * PortcullisConfiguration spec that the replicas apply. If the current spec is invalid, they apply the last valid
   * spec.
   */
  readonly spec: Fact<JsonObject>;
  /** CRDs, roles, bindings and policies for the service account that are missing or differ from the manifests. */
  readonly changedObjects: Fact<readonly Manifest[]>;
  /** Roles and webhook configurations that the settings do not require, such as `clusterroles/portcullis-scc`. */
  readonly obsolete: Fact<readonly string[]>;
  /** Empty if exceptions are off. */
  readonly exceptions: Fact<readonly PodSecurityException[]>;
  /** Permanent grants that were created or changed while their SCC was granted temporarily. */
  readonly suspectGrants: Fact<readonly SuspectGrant[]>;
  /**
   * The existing objects of the policy that guards labels, and the grants to lower levels. Absent if the guard is off.
   */
  readonly guard?: Fact<{ readonly objects: readonly PolicyKind[]; readonly grants: readonly RbacGrant[] }> | undefined;
  readonly exemptionProblems: Fact<readonly ExemptionProblem[]>;
  readonly probes: readonly Probe[];
  /** The reason why the cluster should not be upgraded yet, if any. */
  readonly upgradeProblem: Fact<string | undefined>;
}

export type CheckName =
  | 'api-server'
  | 'break-glass'
  | 'certificates'
  | 'configuration'
  | 'deadlocks'
  | 'enforcement'
  | 'exceptions'
  | 'exemptions'
  | 'floor'
  | 'grants'
  | 'guard'
  | 'installation'
  | 'leases'
  | 'other-admission'
  | 'policies'
  | 'reachability'
  | 'replicas'
  | 'rollout'
  | 'tiers'
  | 'webhooks';

/**
 * `problem` means that something fails now, or will fail when it is needed. `unknown` means that a fact could not be
 * read.
 */
export type Severity = 'problem' | 'warning' | 'info' | 'ok' | 'unknown';

/** The commands that fix a problem, or an instruction. */
export interface Fix {
  /** Commands that are connected by pipes. Empty if no command fixes the problem. */
  readonly commands: readonly ShellCommand[];
  /** A comment on the commands, or an instruction if there are none. */
  readonly note?: string;
  /** Checks that must report no problems before the fix is applied. */
  readonly after?: readonly CheckName[];
}

/** One result of a check. */
export interface CheckResult {
  readonly severity: Severity;
  /** The object or webhook to which the result refers. */
  readonly object: string;
  readonly message: string;
  readonly impact?: string;
  /** The commands at the end of the impact. */
  readonly alternative?: Fix;
  readonly fix?: Fix;
}

export interface DoctorFinding extends CheckResult {
  readonly check: CheckName;
}

export interface DoctorCheck {
  readonly name: CheckName;
  evaluate(facts: Facts): readonly CheckResult[];
}

function createResult(severity: Severity) {
  return (
    object: string,
    message: string,
    details: Pick<CheckResult, 'impact' | 'alternative' | 'fix'> = {},
  ): CheckResult => ({
    severity,
    object,
    message,
    ...details,
  });
}

export const ok = createResult('ok');
export const info = createResult('info');
export const warning = createResult('warning');
export const problem = createResult('problem');
export const unknown = createResult('unknown');

/** Evaluates a fact. If the fact could not be read, the result is `unknown` with the reason. */
export function evaluateFact<T>(
  fact: Fact<T>,
  object: string,
  evaluate: (value: T) => readonly CheckResult[],
): readonly CheckResult[] {
  return 'value' in fact ? evaluate(fact.value) : [unknown(object, fact.unknown)];
}

/** Returns the value of a fact, or `undefined` if it could not be read. */
export function factValue<T>(fact: Fact<T>): T | undefined {
  return 'value' in fact ? fact.value : undefined;
}
