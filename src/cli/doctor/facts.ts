/**
 * The facts that `doctor` gathers about an installation, and the results of its checks. Checks are pure functions of the
 * facts. A fact that cannot be read does not prevent other checks.
 */
import type { Manifest, ManifestSettings } from '../../install/index.ts';
import type { PolicyKind } from '../../kube/admission-policies.ts';
import { shellQuote } from '../../kube/text.ts';
import { CONFIGURATION_NAME } from '../../kube/well-known.ts';
import type { Kinds } from '../../kube/kinds.ts';
import type { EndpointSlice, Lease, Node, Pod, PortcullisConfiguration } from '../../kube/types.ts';
import type { Version } from '../../policy/pss/policy.ts';
import type { AnyObject, Configuration, Server } from '../installation.ts';

/** A value, or the reason why it could not be read. */
export type Fact<T> = { readonly value: T } | { readonly unknown: string };

/** A namespace with the labels that webhooks select by. */
export interface NamespaceFact {
  readonly name: string;
  readonly labels: Readonly<Record<string, string>>;
}

/** A policy of the floor, or its binding. */
export interface FloorObject extends AnyObject {
  readonly kind: PolicyKind;
  readonly spec?: NonNullable<Kinds['ValidatingAdmissionPolicy']['spec']> &
    Pick<NonNullable<Kinds['ValidatingAdmissionPolicyBinding']['spec']>, 'matchResources'>;
}

export interface ServedCertificate {
  /** The Secret, such as `secrets/portcullis-serving-certificate`, or the address that serves it. */
  readonly source: string;
  /** Certificate chain in PEM; `undefined` if there is none. */
  readonly chain: string | undefined;
}

/** A request that the service account needs permission for. */
export interface NeededAccess {
  readonly verb: string;
  readonly group: string;
  readonly resource: string;
  readonly name?: string;
  readonly namespace?: string;
}

/** A dry run that makes the API server call the webhooks. */
export interface ProbeRequest {
  readonly id: 'a namespace' | 'a pod' | 'an SCC' | 'a violating pod';
  /** Absent for cluster-scoped objects. */
  readonly namespace?: NamespaceFact;
  readonly group: string;
  readonly resource: string;
  readonly body: object;
}

export interface Probe extends ProbeRequest {
  /** The admitted object; absent if the request failed. */
  readonly object?: AnyObject;
  /** The error of a request that failed. */
  readonly refusal?: string;
}

export interface Facts {
  readonly now: Date;
  /** Namespace of the installation. */
  readonly namespace: string;
  /** Settings of the installation, derived from its objects. */
  readonly settings: ManifestSettings;
  /** `spec.podSecurity.emulationVersion`; absent: auto. */
  readonly emulationVersion?: Version | undefined;
  readonly server: Fact<Server>;
  /** All webhook configurations of the cluster. */
  readonly configurations: readonly Configuration[];
  /** The policies of the floor and their bindings. */
  readonly policies: Fact<readonly FloorObject[]>;
  readonly namespaces: Fact<readonly NamespaceFact[]>;
  readonly nodes: Fact<readonly Node[]>;
  readonly deployment: Fact<Kinds['Deployment'] | undefined>;
  /** Pods in the namespace of the installation. */
  readonly pods: Fact<readonly Pod[]>;
  /** The endpoints of the Service. */
  readonly endpointSlices: Fact<readonly EndpointSlice[]>;
  readonly disruptionBudgets: Fact<readonly AnyObject[]>;
  readonly leases: Fact<readonly Lease[]>;
  /** The certificate behind the service. */
  readonly certificate: Fact<ServedCertificate>;
  /** The certificates served at the URLs of webhooks, by origin. */
  readonly urlCertificates: ReadonlyMap<string, Fact<ServedCertificate>>;
  readonly configuration: Fact<PortcullisConfiguration | undefined>;
  /** The CustomResourceDefinitions of the installation, and the policy of its service account, that the cluster lacks. */
  readonly missingObjects: Fact<readonly Manifest[]>;
  /** Permissions that the service account lacks. */
  readonly missingAccess: Fact<readonly NeededAccess[]>;
  /** Roles and webhook configurations that the settings do not require, such as `clusterroles/portcullis-scc`. */
  readonly obsolete: Fact<readonly string[]>;
  readonly probes: readonly Probe[];
}

/** `problem`: something fails, or will fail when it is needed. `unknown`: a fact could not be read. */
export type Severity = 'problem' | 'warning' | 'info' | 'ok' | 'unknown';

/** One result of a check. */
export interface CheckResult {
  readonly severity: Severity;
  /** The object or webhook that the result is about. */
  readonly object: string;
  readonly message: string;
  readonly impact?: string;
  /** A command for a shell that fixes the problem and changes nothing else; a comment (`# …`) if no command does. */
  readonly fix?: string;
}

/** A result with the name of its check. */
export interface Finding extends CheckResult {
  readonly check: string;
}

export interface Check {
  readonly name: string;
  evaluate(facts: Facts): readonly CheckResult[];
}

export function ok(object: string, message: string): CheckResult {
  return { severity: 'ok', object, message };
}

export function info(object: string, message: string, impact?: string, fix?: string): CheckResult {
  return {
    severity: 'info',
    object,
    message,
    ...(impact === undefined ? {} : { impact }),
    ...(fix === undefined ? {} : { fix }),
  };
}

export function unknown(object: string, message: string): CheckResult {
  return { severity: 'unknown', object, message };
}

type Details = Pick<CheckResult, 'impact' | 'fix'>;

export function warning(object: string, message: string, details: Details): CheckResult {
  return { severity: 'warning', object, message, ...details };
}

export function problem(object: string, message: string, details: Details): CheckResult {
  return { severity: 'problem', object, message, ...details };
}

/** Evaluates the value of a fact. A fact that could not be read is a result. */
export function evaluateFact<T>(
  fact: Fact<T>,
  object: string,
  evaluate: (value: T) => readonly CheckResult[],
): readonly CheckResult[] {
  return 'value' in fact ? evaluate(fact.value) : [unknown(object, fact.unknown)];
}

/** The value of a fact; `undefined` if it could not be read. */
export function factValue<T>(fact: Fact<T>): T | undefined {
  return 'value' in fact ? fact.value : undefined;
}

/** Returns a command about the pods of the replicas, or a comment if the replicas run outside of the cluster. */
export function podCommand(
  { namespace, deployment }: Pick<Facts, 'namespace' | 'deployment'>,
  command: string,
  elsewhere: string,
): string {
  const hasPods = !('value' in deployment) || deployment.value !== undefined;
  return hasPods ? `kubectl -n ${namespace} ${command}` : `# ${elsewhere}`;
}

/** Commands that fix several problems. */
export const FIXES = {
  logs: (facts: Pick<Facts, 'namespace' | 'deployment'>): string =>
    podCommand(facts, 'logs -l app.kubernetes.io/name=portcullis --tail=50', 'read the logs of the replicas'),
  settings: `kubectl edit portcullisconfiguration ${CONFIGURATION_NAME}`,
} as const;

/** The command that creates an object; it fails if the object exists. */
export function createCommand(object: object): string {
  return `printf %s ${shellQuote(JSON.stringify(object))} | kubectl create -f -`;
}

/** Distinct names, separated by commas. Only the first of many names are printed. */
export function formatNames(names: readonly string[], limit = 3): string {
  const distinct = [...new Set(names)];
  if (distinct.length <= limit + 1) return distinct.join(', ');
  return `${distinct.slice(0, limit).join(', ')} and ${distinct.length - limit} more`;
}
