/**
 * The checks in CEL, for ValidatingAdmissionPolicies. This file defines the expression type for one revision, and the
 * parts of expressions that checks share. The expressions read `variables.containers`, `variables.spec` and the other
 * variables in `SHARED_VARIABLES`. The API server evaluates them on defaulted objects that contain no nulls and no
 * unknown fields.
 * @see https://kubernetes.io/docs/reference/using-api/cel/
 */
import { celString } from '../../kube/cel.ts';

/** The expressions of a check at one revision. Equal expressions of several revisions are generated only once. */
export interface CelRule {
  /**
   * Variables of the check by name. A variable may read the variables that precede it. Use variables for parts that
   * differ between revisions, and for parts that `text` reads several times.
   */
  readonly variables?: Readonly<Record<string, string>>;
  /** CEL bool that is true if the pod passes. It must use only functions that Kubernetes 1.34 supports. */
  readonly passes: string;
  /**
   * CEL string with the reason, followed by the detail in parentheses. It is evaluated only if the pod does not pass.
   */
  readonly text: string;
}

/** Variables that all check expressions may read, in evaluation order. `variables.pod` is the pod or pod template. */
export const SHARED_VARIABLES = {
  spec: 'variables.pod.?spec.orValue({})',
  annotations: 'variables.pod.?metadata.?annotations.orValue({})',
  // Only `containers` may be null, because it is serialized even if it is unset.
  containers:
    'variables.spec.?initContainers.orValue([]) + (variables.spec.?containers.orValue(null) == null ? [] : variables.spec.containers) + variables.spec.?ephemeralContainers.orValue([])',
  volumes: 'variables.spec.?volumes.orValue([])',
  isWindows: 'variables.spec.?os.?name.orValue("") == "windows"',
  hasUserNamespace: '!variables.spec.?hostUsers.orValue(true)',
} as const;

/** The exceptions of revisions as CEL bools. */
export const EXCEPTIONS = { windows: 'variables.isWindows', userNamespace: 'variables.hasUserNamespace' } as const;

/**
 * Returns the names of the containers for which `passes` is false. `passes` is an expression that reads the container
 * `c`.
 */
export function violatingNames(passes: string): string {
  return `variables.containers.filter(c, !(${passes})).map(c, c.name)`;
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

/** A rule for the security contexts of the pod and its containers. */
interface OwnerPasses {
  /** Prefix of the variable names. */
  readonly name: string;
  /**
   * Returns a CEL bool that is true if the security context of an owner passes. The owner is `variables.spec` or `c`.
   */
  passes(owner: string): string;
}

/** The expressions for a security context rule. */
interface OwnerExpressions {
  readonly passes: string;
  /** CEL list of the offending owners, such as `pod` and `container "a"`. */
  readonly owners: string;
  readonly variables: Readonly<Record<string, string>>;
  /** Returns the sorted distinct strings that the expression yields for the offending owners. */
  values(value: (owner: string) => string): string;
}

export function celOwners({ name, passes }: OwnerPasses): OwnerExpressions {
  const pod = passes('variables.spec');
  const names = `variables.${name}Containers`;
  return {
    passes: `${pod} && variables.containers.all(c, ${passes('c')})`,
    owners: `variables.${name}Setters`,
    variables: {
      [`${name}Containers`]: violatingNames(passes('c')),
      [`${name}Setters`]: `(${pod} ? [] : ["pod"]) + (size(${names}) == 0 ? [] : [${celNames(names)}])`,
    },
    values: (value) =>
      celSortedSet(
        `[${pod} ? [] : [${value('variables.spec')}], variables.containers.filter(c, !(${passes('c')})).map(c, ${value('c')})]`,
      ),
  };
}
