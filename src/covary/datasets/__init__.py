"""Small measured data sets included in the package, and generators of toy problems from books; all return DataFrames.

>>> from covary.datasets import available, load, load_iris, make_step
>>> load("iris").equals(load_iris()), load("step").equals(make_step())
(True, True)

``available()`` lists them with kind, size, target and licence. The targets are the last columns; ``attrs["targets"]`` has their
names.
"""

from covary.datasets.catalogue import available as available
from covary.datasets.catalogue import load as load
from covary.datasets.catalogue import names as names
from covary.datasets.classes import make_few_labels as make_few_labels
from covary.datasets.classes import make_logistic as make_logistic
from covary.datasets.classes import make_lone_points as make_lone_points
from covary.datasets.classes import make_neal_binary as make_neal_binary
from covary.datasets.classes import make_neal_classes as make_neal_classes
from covary.datasets.classes import make_probability_maps as make_probability_maps
from covary.datasets.classes import make_rings as make_rings
from covary.datasets.classes import make_separable as make_separable
from covary.datasets.classes import make_squashed as make_squashed
from covary.datasets.classes import make_switch as make_switch
from covary.datasets.classes import make_three_clusters as make_three_clusters
from covary.datasets.clouds import make_cloud as make_cloud
from covary.datasets.clouds import make_sensors as make_sensors
from covary.datasets.curves import make_chirp as make_chirp
from covary.datasets.curves import make_cubic as make_cubic
from covary.datasets.curves import make_gap as make_gap
from covary.datasets.curves import make_line as make_line
from covary.datasets.curves import make_neal as make_neal
from covary.datasets.curves import make_outliers as make_outliers
from covary.datasets.curves import make_sinc as make_sinc
from covary.datasets.curves import make_sine as make_sine
from covary.datasets.curves import make_spike as make_spike
from covary.datasets.curves import make_step as make_step
from covary.datasets.curves import make_two_optima as make_two_optima
from covary.datasets.curves import make_uneven as make_uneven
from covary.datasets.series import make_autoregression as make_autoregression
from covary.datasets.series import make_bands as make_bands
from covary.datasets.series import make_coin as make_coin
from covary.datasets.series import make_hidden_markov as make_hidden_markov
from covary.datasets.series import make_lighthouse as make_lighthouse
from covary.datasets.series import make_mackey_glass as make_mackey_glass
from covary.datasets.series import make_mixture as make_mixture
from covary.datasets.series import make_spacings as make_spacings
from covary.datasets.shipped import load_abalone as load_abalone
from covary.datasets.shipped import load_breast_cancer as load_breast_cancer
from covary.datasets.shipped import load_co2 as load_co2
from covary.datasets.shipped import load_co2_weekly as load_co2_weekly
from covary.datasets.shipped import load_coal as load_coal
from covary.datasets.shipped import load_flights as load_flights
from covary.datasets.shipped import load_iris as load_iris
from covary.datasets.shipped import load_jacksboro as load_jacksboro
from covary.datasets.shipped import load_sunspots as load_sunspots
from covary.datasets.shipped import load_wine as load_wine
from covary.datasets.shipped import load_yacht as load_yacht
from covary.datasets.surfaces import make_decades as make_decades
from covary.datasets.surfaces import make_four_points as make_four_points
from covary.datasets.surfaces import make_friedman as make_friedman
from covary.datasets.surfaces import make_gp as make_gp
from covary.datasets.surfaces import make_hills as make_hills
from covary.datasets.surfaces import make_potential as make_potential
from covary.datasets.surfaces import make_product as make_product
from covary.datasets.surfaces import make_robot_arm as make_robot_arm
