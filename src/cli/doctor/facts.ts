import type { Kinds, Lease, Node, Pod } from '../../kube/types.ts';
import type { AnyObject, Configuration } from '../installation.ts';
import type { ManifestSettings } from '../../install/index.ts';

// * What the doctor knows of an installation, and what it makes of it. Facts are gathered first, by reading; checks are pure
// functions of them. What could not be read is a fact, too: it hides nothing else.

/** Something that was looked at, or why it could not be. */
export type Fact<T> = { readonly value: T } | { readonly unknown: string };

/** A namespace and the labels by which webhooks choose it. */
export interface NamespaceFact {
  readonly name: string;
  readonly labels: Readonly<Record<string, string>>;
}

export interface ServerFact {
  /** Such as `v1.36.3`. */
  readonly version: string;
  /** API groups that the cluster serves. */
  readonly groups: readonly string[];
}

/** A serving certificate, and who says that it is served. */
export interface ServedCertificate {
  /** Such as `secrets/portcullis-serving-certificate`, or an address. */
  readonly source: string;
  /** In PEM; `undefined` if there is none. */
  readonly chain: string | undefined;
}

/** A configuration file as the replicas mount it. */
export interface ConfigurationFile {
  /** Such as `configmaps/portcullis-configuration configuration.yaml`. */
  readonly source: string;
  /** `undefined` if there is none. */
  readonly text: string | undefined;
}

/** Something that the service account has to be allowed. */
export interface NeededAccess {
  readonly verb: string;
  readonly group: string;
  readonly resource: string;
  readonly name?: string;
  readonly namespace?: string;
}

/** A dry run by which the API server shows whether it can ask our webhooks. */
export interface ProbeRequest {
  readonly id: 'namespace' | 'pod' | 'scc' | 'violating pod';
  /** Where; absent for what lies in no namespace. */
  readonly namespace?: NamespaceFact;
  readonly group: string;
  readonly resource: string;
  readonly body: object;
}

export interface Probe extends ProbeRequest {
  /** The object as it would have been stored; absent if the request was refused. */
  readonly object?: AnyObject;
  /** Why it was refused. */
  readonly refusal?: string;
}

export interface Facts {
  readonly now: Date;
  /** The namespace of the installation. */
  readonly namespace: string;
  /** What the installation was made with, as far as it shows. */
  readonly settings: ManifestSettings;
  readonly server: Fact<ServerFact>;
  /** All of the cluster. */
  readonly configurations: readonly Configuration[];
  readonly namespaces: Fact<readonly NamespaceFact[]>;
  readonly nodes: Fact<readonly Node[]>;
  readonly deployment: Fact<Kinds['Deployment'] | undefined>;
  /** Of the installation. */
  readonly pods: Fact<readonly Pod[]>;
  readonly disruptionBudgets: Fact<readonly AnyObject[]>;
  readonly leases: Fact<readonly Lease[]>;
  /** What the service serves. */
  readonly certificate: Fact<ServedCertificate>;
  /** What is served at URLs, by their origin. */
  readonly atUrls: ReadonlyMap<string, Fact<ServedCertificate>>;
  readonly configuration: Fact<ConfigurationFile | undefined>;
  /** What the service account lacks. */
  readonly lacking: Fact<readonly NeededAccess[]>;
  readonly probes: readonly Probe[];
}

/** `problem`: something does not work, or will not when it is needed. `unknown`: could not be looked at. */
export type Severity = 'problem' | 'warning' | 'info' | 'ok' | 'unknown';

export interface Finding {
  readonly check: string;
  readonly severity: Severity;
  /** The object or webhook that it is about. */
  readonly where: string;
  readonly what: string;
  /** Why it matters. */
  readonly why?: string;
  /** The command that mends it. */
  readonly fix?: string;
}

/** A finding as a check makes it; the check's name is added later. */
export type Remark = Omit<Finding, 'check'>;

/** A question to the facts. */
export interface Check {
  readonly name: string;
  judge(facts: Facts): readonly Remark[];
}

/** What comes of a fact; what is not known is said instead. */
export function given<T>(fact: Fact<T>, where: string, judge: (value: T) => readonly Remark[]): readonly Remark[] {
  return 'value' in fact ? judge(fact.value) : [{ severity: 'unknown', where, what: fact.unknown }];
}

const SHOWN = 3;

/** Names between commas, each once; of many only the first. */
export function printNames(names: readonly string[], shown = SHOWN): string {
  const distinct = [...new Set(names)];
  if (distinct.length <= shown + 1) return distinct.join(', ');
  return `${distinct.slice(0, shown).join(', ')} and ${distinct.length - shown} more`;
}
