/** What an installation has to know of its cluster. */
export interface ClusterFacts {
  readonly server: string;
  /** As the API server tells it: `v1.36.3`. */
  readonly version: string;
  /** API groups that are served. */
  readonly groups: readonly string[];
  /** Who brought the definition of SCCs; `nobody` where there is none, `unknown` where it must not be read. */
  readonly sccDefinition: 'nobody' | 'us' | 'others' | 'unknown';
  /** Labels of a few nodes; none where they must not be read. */
  readonly nodeLabels: readonly string[];
}
