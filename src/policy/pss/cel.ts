/**
 * The checks in CEL, for ValidatingAdmissionPolicies. This file defines the expressions of one revision, their inputs, and
 * the parts of expressions that checks share. The API server evaluates them on defaulted objects that contain no nulls and
 * no unknown fields.
 * @see https://kubernetes.io/docs/reference/using-api/cel/
 */
import { celString } from '../../kube/cel.ts';

/** The expressions of a check at one revision. Equal expressions of several revisions are generated only once. */
export interface CelRule {
  /** CEL bool that is true if the pod passes. It must use only functions that Kubernetes 1.34 supports. */
  readonly passes: string;
  /**
   * CEL string with the reason, followed by the detail in parentheses. It is evaluated only if the pod does not pass.
   */
  readonly text: string;
}

/** References to the values that the expressions of checks read, such as `variables.spec`. */
export interface CelInputs {
  readonly spec: string;
  readonly annotations: string;
  /** All containers, init containers and ephemeral containers. */
  readonly containers: string;
  readonly volumes: string;
  /** CEL bools of the pods that checks except. */
  readonly isWindows: string;
  readonly hasUserNamespace: string;
}

/** Builds the expressions of a check from references to its inputs. */
export type BuildCel = (inputs: CelInputs) => CelRule;

type Definition = (inputs: CelInputs & { readonly pod: string }) => string;

/** The values of the inputs, in evaluation order. They read the pod or pod template, and the inputs that precede them. */
export const CEL_INPUTS: Readonly<Record<keyof CelInputs, Definition>> = {
  spec: ({ pod }) => `${pod}.?spec.orValue({})`,
  annotations: ({ pod }) => `${pod}.?metadata.?annotations.orValue({})`,
  // Only `containers` may be null, because it is serialized even if it is unset.
  containers: ({ spec }) =>
    `${spec}.?initContainers.orValue([]) + (${spec}.?containers.orValue(null) == null ? [] : ${spec}.containers) + ${spec}.?ephemeralContainers.orValue([])`,
  volumes: ({ spec }) => `${spec}.?volumes.orValue([])`,
  isWindows: ({ spec }) => `${spec}.?os.?name.orValue("") == "windows"`,
  hasUserNamespace: ({ spec }) => `!${spec}.?hostUsers.orValue(true)`,
};

/** The input that is true for the pods of each exception. */
export const EXCEPTIONS = { windows: 'isWindows', userNamespace: 'hasUserNamespace' } as const;

/**
 * Returns an expression that evaluates values once, each of which it may read by name. A value may read the values that
 * precede it. These are not variables of policies, because API servers prepare all of those for each request, even if no
 * expression reads them.
 */
export function bind(values: Readonly<Record<string, string>>, expression: string): string {
  return Object.entries(values).reduceRight((body, [name, value]) => `[${value}].map(${name}, ${body})[0]`, expression);
}

/**
 * Returns the names of the containers for which `passes` is false. `passes` is an expression that reads the container
 * `c`.
 */
export function violatingNames({ containers }: Pick<CelInputs, 'containers'>, passes: string): string {
  return `${containers}.filter(c, !(${passes})).map(c, c.name)`;
}

/**
 * Returns the CEL string `container "a"` or `containers "a", "b"` for a list of names. `noun` replaces the word
 * `container`.
 */
export function celNames(names: string, noun = 'container'): string {
  return `(size(${names}) == 1 ? "${noun} \\"" : "${noun}s \\"") + ${names}.join("\\", \\"") + "\\""`;
}

/** Returns a CEL string with the items of a non-empty list in double quotes. */
export function celQuotedList(items: string): string {
  return `"\\"" + ${items}.join("\\", \\"") + "\\""`;
}

/** Returns the distinct strings in a list of lists, sorted by bytes. Kubernetes 1.34 added these functions. */
export function celSortedSet(lists: string): string {
  return `${lists}.flatten().distinct().sort()`;
}

/** Returns an expression that selects the singular or plural based on the size of a list. */
export function celPlural(list: string, singular: string, plural: string): string {
  return `(size(${list}) == 1 ? ${celString(singular)} : ${celString(plural)})`;
}

/** The expressions for a rule on the security contexts of the pod and its containers. */
interface OwnerExpressions {
  readonly passes: string;
  /** Values to bind, each with the name of the rule as its prefix. */
  readonly values: Readonly<Record<string, string>>;
  /** Name of the bound list of the violating owners, such as `pod` and `container "a"`. */
  readonly owners: string;
  /** Returns the sorted distinct strings that the expression yields for the violating owners. */
  read(value: (owner: string) => string): string;
}

/**
 * Builds the expressions for security contexts.
 * @param passes returns a CEL bool that is true if the security context of an owner, which is the spec or a container,
 * passes
 */
export function celOwners(
  name: string,
  { spec, containers }: CelInputs,
  passes: (owner: string) => string,
): OwnerExpressions {
  const names = `${name}Containers`;
  const owners = `${name}Setters`;
  return {
    passes: `${passes(spec)} && ${containers}.all(c, ${passes('c')})`,
    values: {
      [names]: violatingNames({ containers }, passes('c')),
      [owners]: `(${passes(spec)} ? [] : ["pod"]) + (size(${names}) == 0 ? [] : [${celNames(names)}])`,
    },
    owners,
    read: (value) =>
      celSortedSet(
        `[${passes(spec)} ? [] : [${value(spec)}], ${containers}.filter(c, !(${passes('c')})).map(c, ${value('c')})]`,
      ),
  };
}
