/**
 * Builds the checks in CEL for ValidatingAdmissionPolicies. This file defines the types of expressions, their inputs,
 * and the parts of expressions that checks share. The API server evaluates the expressions on defaulted objects that
 * contain no nulls and no unknown fields.
 * @see https://kubernetes.io/docs/reference/using-api/cel/
 */
import { celString } from '../../kube/cel.ts';

/**
 * The expressions of a check at one revision. If several revisions have equal expressions, they are generated only
 * once.
 */
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
  /** All init, regular and ephemeral containers. */
  readonly containers: string;
  readonly volumes: string;
  /** CEL bools that are true for pods that checks except. */
  readonly isWindows: string;
  readonly hasUserNamespace: string;
}

/** Builds the expressions of a check from references to its inputs. */
export type BuildCel = (inputs: CelInputs) => CelRule;

type Definition = (inputs: CelInputs & { readonly pod: string }) => string;

/** Definitions of the inputs, in evaluation order. They read the pod or pod template and the preceding inputs. */
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

/** For each exception, the input that is true for excepted pods. */
export const EXCEPTIONS = { windows: 'isWindows', userNamespace: 'hasUserNamespace' } as const;

/**
 * Returns an expression that evaluates each value once and may read it by name. A value may read the preceding values.
 * They are not policy variables, because API servers prepare all policy variables for each request, even if no
 * expression reads them.
 */
export function bind(values: Readonly<Record<string, string>>, expression: string): string {
  return Object.entries(values).reduceRight((body, [name, value]) => `[${value}].map(${name}, ${body})[0]`, expression);
}

/**
 * Returns a CEL list of the names of containers for which `passes` is false. `passes` is an expression that reads the
 * container `c`.
 */
export function violatingNames({ containers }: Pick<CelInputs, 'containers'>, passes: string): string {
  return `${containers}.filter(c, !(${passes})).map(c, c.name)`;
}

/**
 * Returns a CEL string such as `container "a"` or `containers "a", "b"` for a list of names. `noun` replaces the word
 * `container`.
 */
export function celNames(names: string, noun = 'container'): string {
  return `(size(${names}) == 1 ? "${noun} \\"" : "${noun}s \\"") + ${names}.join("\\", \\"") + "\\""`;
}

/** Returns a CEL string with the items of a non-empty list in double quotes. */
export function celQuotedList(items: string): string {
  return `"\\"" + ${items}.join("\\", \\"") + "\\""`;
}

/**
 * Returns a CEL list of the distinct strings in a list of lists, sorted by bytes. Kubernetes 1.34 added these
 * functions.
 */
export function celSortedSet(lists: string): string {
  return `${lists}.flatten().distinct().sort()`;
}

/** Returns an expression that selects the singular or plural based on the size of a list. */
export function celPlural(list: string, singular: string, plural: string): string {
  return `(size(${list}) == 1 ? ${celString(singular)} : ${celString(plural)})`;
}

/** The expressions for a rule about the security contexts of the pod and its containers. */
interface OwnerExpressions {
  readonly passes: string;
  /** Values to bind. Their names start with the name of the rule. */
  readonly values: Readonly<Record<string, string>>;
  /** Name of the bound list that contains the violating owners, such as `pod` and `container "a"`. */
  readonly owners: string;
  /** Returns a CEL list of the sorted distinct values of an expression for the violating owners. */
  read(value: (owner: string) => string): string;
}

/**
 * Builds the expressions for security contexts.
 * @param passes returns a CEL bool that is true if the security context of an owner passes. An owner is the spec or a
 * container
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
